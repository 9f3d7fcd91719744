"""The protocol itself: messages, their types, arguments, rules and handles."""
