// Command usher sells and honours scarce, one-time things: the whole product is
// this one binary, and `usher demo` runs all of it with nothing to set up.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	// Events name their zones; a machine may have none installed.
	_ "time/tzdata"

	"github.com/alecthomas/kong"

	"usher"
	"usher/internal/fault"
)

// cli is every command; each has a file of its own.
type cli struct {
	Config    string     `help:"YAML file of settings by flag name." type:"path" env:"USHER_CONFIG" placeholder:"FILE"`
	LogLevel  slog.Level `help:"Least level that is logged: debug, info, warn or error." default:"info" env:"USHER_LOG_LEVEL"`
	LogFormat string     `help:"Log format: json, text, or auto (text on a terminal)." enum:"auto,json,text" default:"auto" env:"USHER_LOG_FORMAT"`

	Demo      demoCmd      `cmd:"" help:"Run the whole product on this machine with nothing to set up."`
	Serve     serveCmd     `cmd:"" help:"Run usher on databases of your own."`
	Migrate   migrateCmd   `cmd:"" help:"Bring the databases up to date."`
	Event     eventCmd     `cmd:"" help:"Make, publish and control events and their places."`
	Hold      holdCmd      `cmd:"" help:"End somebody's hold."`
	Order     orderCmd     `cmd:"" help:"Take a sold order back."`
	Reconcile reconcileCmd `cmd:"" help:"Ask the payment provider about everything that is open, now."`
	Audit     auditCmd     `cmd:"" help:"Check every invariant from the rows alone."`
	Rehearse  rehearseCmd  `cmd:"" help:"Run a whole on-sale with simulated people against a running usher."`
	Bench     benchCmd     `cmd:"" help:"Measure, each figure beside what this machine can do at best."`
	Paysim    paysimCmd    `cmd:"" help:"Run the payment simulator."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
}

// process is what commands need of the world around them.
type process struct {
	ctx    context.Context
	log    *slog.Logger
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

// gcPercent trades memory for processor time: the live heap is some dozens of
// megabytes, and at Go's default of 100 a siege has it collected many times a
// second. GOGC in the environment goes before it.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for a clean end; the second finds the default action
	// again and kills at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:]))
}

// run is main without the process around it.
func run(ctx context.Context, args []string) int {
	var c cli
	parser, err := kong.New(&c,
		kong.Name("usher"),
		kong.Description("Sells and honours scarce, one-time things: from the first person in line to the gate."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Resolvers(&configFile{}),
	)
	if err != nil {
		panic("usher: commands are not well formed: " + err.Error())
	}
	kctx, err := parser.Parse(args)
	if err == nil {
		err = checkEnv(parser.Model, os.Environ())
	}
	if err == nil {
		err = fault.ArmFromEnv(os.Getenv("USHER_FAULTS"))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "usher: %v\n"+knownHint, err, commandOf(err))
		return exitUsage
	}
	log := newLogger(os.Stderr, c.LogFormat, c.LogLevel)
	slog.SetDefault(log)
	p := &process{ctx: ctx, log: log, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	err = kctx.Run(p)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(os.Stderr, "usher: %s\n", explain(err))
	code := exitCode(err)
	if code == exitUsage {
		fmt.Fprintf(os.Stderr, knownHint, kctx.Selected().FullPath())
	}
	return code
}

// knownHint ends what is said about a wrong command line.
const knownHint = "(%s --help tells what is known)\n"

// commandOf names the command whose help answers a wrong command line.
func commandOf(err error) string {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil && wrong.Context.Selected() != nil {
		return wrong.Context.Selected().FullPath()
	}
	return "usher"
}

// Exit codes, for scripts; the README has them, too.
const (
	exitOK      = 0
	exitFailed  = 1 // usher failed, or looked and found that something is wrong
	exitUsage   = 2 // the command line says nothing that could be done
	exitMissing = 3 // something that usher needs is not there: a database, a key, a port, a folder
	exitRefused = 4 // usher understood and said no
)

// usageError is a command line whose flags can be read and do not go together.
type usageError string

// Error returns what is wrong.
func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

func exitCode(err error) int {
	var usage usageError
	switch {
	case errors.Is(err, context.Canceled):
		return exitFailed
	case errors.As(err, &usage):
		return exitUsage
	}
	switch usher.CodeOf(err) {
	case usher.CodeUnavailable, usher.CodeBusy, usher.CodeUnknown:
		return exitMissing
	case usher.CodeInternal:
		return exitFailed
	}
	return exitRefused
}

// explain is the text for a person: the message that says what to do, and after
// it the cause, which a terminal may show.
func explain(err error) string {
	var coded *usher.Error
	if !errors.As(err, &coded) || coded.Message == "" {
		return err.Error()
	}
	if coded.Err != nil {
		return fmt.Sprintf("%s (%v)", coded.Message, coded.Err)
	}
	return coded.Message
}

// versionCmd prints the version.
type versionCmd struct{}

// Run prints the version that the build carries.
func (versionCmd) Run(p *process) error {
	_, err := fmt.Fprintln(p.stdout, "usher", version())
	return err
}

// version is the module's version or, for a build from a checkout, its revision.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return info.Main.Version
}
