import type { ButtonHTMLAttributes } from "react";
import { Icon, type IconName } from "./Icon";

type Props = ButtonHTMLAttributes<HTMLButtonElement> & { icon: IconName; label: string; showLabel?: boolean };

/** A button with an icon; its label is shown, or read out and shown as a tip. */
export function IconButton({ icon, label, showLabel = false, className = "", ...rest }: Props) {
  return (
    <button
      type="button"
      className={`icon-button ${showLabel ? "labelled" : ""} ${className}`}
      {...(showLabel ? {} : { "aria-label": label, title: label })}
      {...rest}
    >
      <Icon name={icon} />
      {showLabel && <span>{label}</span>}
    </button>
  );
}
