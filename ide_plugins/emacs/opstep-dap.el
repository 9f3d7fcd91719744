;;; opstep-dap.el --- opstep for dap-mode -*- lexical-binding: t; -*-

;;; Commentary:
;; Two templates for `dap-debug': this file, and a running process.

;;; Code:

(require 'dap-mode)
(require 'dap-ui)

(defvar opstep-dap-python "python3"
  "The interpreter that has opstep.")

;; Exceptions that stop a session: (type (filter . on) ...).  dap-mode sends them only together with
;; breakpoints, so set at least one.
(defvar dap-exception-breakpoints nil)
(unless (assoc "opstep" dap-exception-breakpoints)
  (push '("opstep" ("error" . t) ("nan" . t) ("inf" . t)) dap-exception-breakpoints))

(defun opstep-dap-complete (configuration)
  "Fill in what CONFIGURATION leaves open: the adapter, this file, its folder, the process."
  (setq configuration
        (plist-put configuration
                   :dap-server-path (list opstep-dap-python "-m" "opstep_server" "dap")))
  (if (equal (plist-get configuration :request) "attach")
      (if (plist-get configuration :pid)
          configuration
        (plist-put configuration :pid (read-number "process (opstep ps lists them): ")))
    (setq configuration (dap--put-if-absent configuration :program (buffer-file-name)))
    (dap--put-if-absent configuration :cwd default-directory)))

(dap-register-debug-provider "opstep" #'opstep-dap-complete)
(dap-register-debug-template "opstep: this file"
                             '(:type "opstep" :request "launch" :name "opstep: this file"))
(dap-register-debug-template "opstep: a running process"
                             '(:type "opstep" :request "attach"
                               :name "opstep: a running process"))

(provide 'opstep-dap)
;;; opstep-dap.el ends here
