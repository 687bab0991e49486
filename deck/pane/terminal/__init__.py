"""Bytes of a program's output to a screen: cells, cursor, modes, history, answers to its queries.

Pure: no I/O, no clock, no loop. `engine` says what the deck needs of a terminal and makes one;
`screen` is the engine on pyte, put together from `tokenizer`, `grid`, `writing`, `movement`,
`editing`, `modes`, `queries`, `strings`, `reflow` and `snapshot`; `ghostty`, with `ghostty_cells`,
adapts libghostty-vt. Both share `cells`, `widths`, `history`, `replies` and `reports`.
"""
