"""Helpers that tests share.

Waiting and places:  patience, markers
Real processes:      processes (scripts, servers, clients), debugged_script, edited_program,
                     tap_programs, tap_processes, training_programs, documented_commands,
                     python_debugger
At the terminal:     terminal (a real one), piped_terminal, debug_command
The protocol:        dap_client (strict), dap_schema, editors (like real ones)
Stand-ins:           scripted_executor, scripted_train, dap_executor, replayed_executor,
                     tap_server
Inputs:              world (programs, a scope and an executor), samples (of every op), op_programs,
                     layer_cases, gradients, nets, modes, both_modes, tap_records, tap_batches,
                     log_folder, png_files, wild_messages
"""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
PROGRAMS = TESTS / "programs"
