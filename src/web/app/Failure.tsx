import { Component, type ReactNode } from "react";

/** Shows what went wrong instead of a blank page. */
export class Failure extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: unknown): { error: Error } {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override render(): ReactNode {
    if (!this.state.error) return this.props.children;
    return (
      <div className="notice failure broken" role="alert">
        <p>This view could not be shown: {this.state.error.message}</p>
        <button type="button" className="button" onClick={() => location.reload()}>Reload the page</button>
      </div>
    );
  }
}
