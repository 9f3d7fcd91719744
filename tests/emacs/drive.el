;;; drive.el --- A user of dap-mode, in batch -*- lexical-binding: t; -*-

;;; Commentary:
;; emacs -q --batch -l drive.el OPSTEP-DAP PYTHON SCENARIO SCRIPT ARG...
;; Waits for what must happen; the first thing that does not is printed and ends Emacs with code 1.

;;; Code:

(require 'package)
(add-to-list 'package-directory-list "/usr/share/emacs/site-lisp/elpa")
(package-initialize)
(setq lsp-session-file (expand-file-name "lsp-session" (getenv "HOME"))
      dap-breakpoints-file (expand-file-name "breakpoints" (getenv "HOME"))
      dap-auto-configure-features nil
      dap-auto-show-output nil
      dap-print-io nil
      create-lockfiles nil)

(defun drive-wait (what condition)
  "Wait until CONDITION gives something, and return that; WHAT names it."
  (let ((until (+ (float-time) 300)) found)
    (while (not (setq found (funcall condition)))
      (when (> (float-time) until)
        (message "%s did not happen; at line %s, threads %S, output:\n%s" what
                 (and (drive-frame) (gethash "line" (drive-frame)))
                 (dap--debug-session-thread-states (drive-session)) (drive-output))
        (kill-emacs 1))
      (accept-process-output nil 0.05))
    (message "drive: %s: %s" what (if (stringp found) found (prin1-to-string found)))
    found))

(defun drive-session () (dap--cur-session))

(defun drive-frame ()
  "The frame at which the current session is stopped."
  (and (drive-session) (dap--debug-session-active-frame (drive-session))))

(defun drive-line (what &optional line)
  "Wait for a stop, at LINE if it is given."
  (drive-wait what
              (lambda ()
                (let ((frame (drive-frame)))
                  (and frame
                       (or (null line) (= line (gethash "line" frame)))
                       (number-to-string (gethash "line" frame)))))))

(defun drive-mark (mark)
  "The line of this buffer that carries the comment MARK."
  (save-excursion
    (goto-char (point-min))
    (re-search-forward (concat "# @" mark "\\b"))
    (line-number-at-pos)))

(defun drive-breakpoint (mark)
  "Set a breakpoint on the line that carries MARK; the line."
  (let ((line (drive-mark mark)))
    (goto-char (point-min))
    (forward-line (1- line))
    (dap-breakpoint-add)
    line))

(defun drive-output ()
  "What the session has printed."
  (with-current-buffer (dap--debug-session-output-buffer (drive-session)) (buffer-string)))

(defun drive-debug (&rest arguments)
  "Begin the template for a launch, or for an attach, with ARGUMENTS."
  (dap-debug (append (list :type "opstep" :name "test") arguments)))

(defun drive-state () (dap--debug-session-state (drive-session)))

(defun drive-ended () (drive-wait "end" (lambda () (eq (drive-state) 'terminated))))

(defun drive-step (_args)
  "Launch, stop at a breakpoint, step, evaluate, restart, run to the end."
  (let ((first (drive-breakpoint "first"))
        (second (drive-mark "second"))
        (old nil))
    (drive-debug :request "launch")
    (drive-line "breakpoint" first)
    (dap-next (drive-session))
    (drive-line "step" second)
    (setq old (drive-session))
    (dap-debug-restart)
    (drive-wait "restart" (lambda () (not (eq old (drive-session)))))
    (drive-line "breakpoint again" first)
    (dap-next (drive-session))
    (drive-line "step again" second)
    (dap-continue (drive-session) (dap--debug-session-thread-id (drive-session)))
    (drive-ended)
    (drive-wait "output" (lambda () (and (string-match-p "done" (drive-output)) "done")))))

(defun drive-pause-here (what)
  "Pause the only thread, and see where it is."
  (let ((thread (drive-wait "thread" (lambda ()
                                       (car (append (dap--debug-session-threads (drive-session))
                                                    nil))))))
    (dap-stop-thread-1 (drive-session) (gethash "id" thread))
    (drive-line what)))

(defun drive-pause (args)
  "Launch what runs until the file ARGS says is there, pause it, let it go on to its end."
  (drive-debug :request "launch" :args (vector "--until" (car args)))
  (drive-pause-here "pause")
  (write-region "" nil (car args))
  (dap-continue (drive-session) (dap--debug-session-thread-id (drive-session)))
  (drive-ended))

(defun drive-attach (args)
  "Attach to the process that ARGS begins with, pause it, and leave it."
  (drive-debug :request "attach" :pid (string-to-number (car args)))
  (drive-pause-here "attached")
  (dap-disconnect (drive-session))
  (drive-ended))

(defun drive-filter (_args)
  "The filters of opstep-dap.el stop at a NaN, where no breakpoint is."
  ;; On a line without ops: dap-mode says nothing of filters when there is no breakpoint.
  (goto-char (point-min))
  (dap-breakpoint-add)
  (drive-debug :request "launch")
  (drive-line "exception" (drive-mark "log"))
  (drive-wait "reason" (lambda ()
                         (gethash (dap--debug-session-thread-id (drive-session))
                                  (dap--debug-session-thread-states (drive-session)))))
  (dap-disconnect (drive-session))
  (drive-ended))

(let ((debug-on-error nil)
      (settings (pop command-line-args-left))
      (python (pop command-line-args-left))
      (scenario (pop command-line-args-left))
      (script (pop command-line-args-left))
      (args command-line-args-left))
  (setq command-line-args-left nil)
  (load settings nil t)
  (setq opstep-dap-python python)
  (find-file script)
  (funcall (intern (concat "drive-" scenario)) args)
  (message "drive: all done")
  (kill-emacs 0))

;;; drive.el ends here
