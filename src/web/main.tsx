import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { Failure } from "./app/Failure";
import { ToastProvider } from "./ui/toasts";

const root = document.getElementById("root");
if (!root) throw new Error("The page has no element #root");
createRoot(root).render(
  <StrictMode>
    <Failure>
      <ToastProvider>
        <App />
      </ToastProvider>
    </Failure>
  </StrictMode>,
);
