package main

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
)

// configFile is the lowest of the four sources of a setting: flag, environment,
// file, default. The file is flat YAML; its keys are the names of the flags.
type configFile struct {
	path   string
	loaded bool
	values map[string]any
}

// Resolve implements kong.Resolver: it answers for a flag that neither the
// command line nor the environment sets.
func (f *configFile) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if err := f.load(ctx); err != nil {
		return nil, err
	}
	for _, env := range flag.Envs {
		if _, set := os.LookupEnv(env); set {
			return nil, nil
		}
	}
	v, ok := f.values[flag.Name]
	if !ok || flag.Name == "config" {
		return nil, nil
	}
	if list, isList := v.([]any); isList {
		items := make([]string, 0, len(list))
		for _, item := range list {
			items = append(items, fmt.Sprint(item))
		}
		return strings.Join(items, ","), nil
	}
	if v == nil {
		return nil, nil
	}
	return fmt.Sprint(v), nil
}

// load reads the file once, when the first flag is resolved: only then is it
// known which file the command line or the environment names.
func (f *configFile) load(ctx *kong.Context) error {
	if f.loaded {
		return nil
	}
	f.loaded = true
	for _, flag := range ctx.Flags() {
		if flag.Name == "config" {
			f.path, _ = ctx.FlagValue(flag).(string)
		}
	}
	if f.path == "" {
		return nil
	}
	b, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("read configuration file: %w", err)
	}
	if err := yaml.UnmarshalWithOptions(b, &f.values, yaml.Strict()); err != nil {
		// The reader's own text quotes lines, and a line may hold a secret.
		return fmt.Errorf("configuration file %s is no flat YAML of names and values", f.path)
	}
	return nil
}

// Validate implements kong.Resolver: a key that no command knows is an error,
// since a setting that is silently ignored is worse than none.
func (f *configFile) Validate(app *kong.Application) error {
	known := map[string]bool{}
	for _, flag := range allFlags(app.Node) {
		known[flag.Name] = true
	}
	var unknown []string
	for name := range f.values {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("configuration file %s has unknown keys: %s", f.path, strings.Join(unknown, ", "))
	}
	return nil
}

// otherEnv are variables that usher reads without a flag.
var otherEnv = []string{"USHER_FAULTS", "USHER_STATE_DIR", "USHER_POSTGRES_BIN", "USHER_TEST_DATABASE_URL"}

// checkEnv refuses USHER_ variables that nothing reads, except those that an
// orchestrator makes for a service called usher.
func checkEnv(app *kong.Application, environ []string) error {
	known := map[string]bool{}
	for _, name := range otherEnv {
		known[name] = true
	}
	for _, flag := range allFlags(app.Node) {
		for _, env := range flag.Envs {
			known[env] = true
		}
	}
	var unknown []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "USHER_") && !known[name] && !isServiceEnv(name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("unknown environment variables: %s", strings.Join(unknown, ", "))
	}
	return nil
}

func isServiceEnv(name string) bool {
	return strings.HasPrefix(name, "USHER_SERVICE_") || name == "USHER_PORT" || strings.HasPrefix(name, "USHER_PORT_")
}

func allFlags(n *kong.Node) []*kong.Flag {
	flags := slices.Clone(n.Flags)
	for _, child := range n.Children {
		flags = append(flags, allFlags(child)...)
	}
	return flags
}

// secret is a setting that is never printed: not in help, logs or errors.
type secret string

// String hides the value.
func (s secret) String() string {
	if s == "" {
		return ""
	}
	return "(hidden)"
}

// GoString hides the value.
func (s secret) GoString() string { return s.String() }

// LogValue hides the value.
func (s secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// secretFrom returns a secret given directly, or read from a file.
func secretFrom(name string, value secret, path string) (string, error) {
	switch {
	case path == "":
		return string(value), nil
	case value != "":
		return "", fmt.Errorf("%s is given twice, as a value and as a file", name)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fmt.Errorf("the file of %s is empty", name)
	}
	return text, nil
}
