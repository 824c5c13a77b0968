package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
)

// newLogger makes the process's logger: JSON for machines, colours for people at
// a terminal.
func newLogger(w *os.File, format string, level slog.Level) *slog.Logger {
	if format == "auto" {
		format = "json"
		if isTerminal(w) {
			format = "text"
		}
	}
	return slog.New(handlerFor(w, format, level, isTerminal(w)))
}

func handlerFor(w io.Writer, format string, level slog.Level, colour bool) slog.Handler {
	if format == "text" {
		return tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: "15:04:05.000", NoColor: !colour || os.Getenv("NO_COLOR") != ""})
	}
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
