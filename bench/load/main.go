// Command load compares Fescue with an operator that is written by hand: it starts a control plane
// for each scenario and operator, in turns, runs the scenario, and prints the medians.
//
//	go run -C bench ./load -scenario ats,watchers -scale 0.1 -runs 1
//
// It needs Linux, for /proc. Figures depend on the machine and on what else runs there; only the
// ratios of one run can be compared.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// options are the values of the flags.
type options struct {
	scenarios, operators   string
	scale                  float64
	runs                   int
	idle                   time.Duration
	fescueArgs, byHandArgs string
	profiles, rows         string
	limits                 limits
	root                   string
	// single is the file for the rows of one run on the control plane of $DEVCLUSTER_DIR; the
	// program starts itself with it.
	single string
}

func (o *options) addFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.scenarios, "scenario", "", "scenarios to run, separated by commas; all by default:\n"+
		describeScenarios())
	flags.StringVar(&o.operators, "operator", fescue+","+byHand+","+floor, "operators to compare, separated by commas")
	flags.Float64Var(&o.scale, "scale", 1, "factor for the numbers of objects")
	flags.IntVar(&o.runs, "runs", 3, "number of runs; the medians are printed")
	flags.DurationVar(&o.idle, "idle", time.Minute, "how long idle objects are watched")
	flags.StringVar(&o.fescueArgs, "fescue-args", "--workers 32", "arguments for fescue run")
	flags.StringVar(&o.byHandArgs, "by-hand-args", "--workers 32 --events=true --conditions=true",
		"arguments for the operator written by hand")
	flags.StringVar(&o.profiles, "profiles", "",
		"folder for a CPU profile of the first 15 seconds of each row, and for heap profiles; none by default")
	flags.StringVar(&o.rows, "rows", "", "file for the rows of each run, as JSON; none by default")
	flags.Func("limit",
		"the highest ratio to the operator by hand, as MEASURE=RATIO, such as requests=1.1 (repeatable); a higher one is an error", o.limits.add)
	flags.StringVar(&o.root, "root", "..", "folder of the main module")
	flags.StringVar(&o.single, "single", "",
		"file for the rows of a single run on a control plane that is running; what make bench uses")
}

func describeScenarios() string {
	var text strings.Builder
	for _, s := range scenarios {
		fmt.Fprintf(&text, "%s: %s\n", s.name, s.doc)
	}
	return text.String()
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrllog.SetLogger(logr.Discard())
	if err := start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context) error {
	if len(os.Args) > 1 && os.Args[1] == floorCommand {
		return runFloor(ctx, os.Args[2:])
	}
	var o options
	o.addFlags(flag.CommandLine)
	flag.Parse()
	if o.single != "" {
		return single(ctx, &o)
	}
	return o.compare(ctx)
}

// selected returns the scenarios of the flag.
func (o *options) selected() ([]scenario, error) {
	if o.scenarios == "" {
		return scenarios, nil
	}
	var selected []scenario
	for name := range strings.SplitSeq(o.scenarios, ",") {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-scenario: invalid value %q: must be one of\n%s", name, describeScenarios())
		}
		selected = append(selected, scenarios[i])
	}
	return selected, nil
}

// compare runs all scenarios with all operators, each on a control plane of its own, and prints the
// table after each scenario.
func (o *options) compare(ctx context.Context) error {
	selected, err := o.selected()
	if err != nil {
		return err
	}
	if o.scale <= 0 || o.runs < 1 {
		return errors.New("-scale and -runs must be positive")
	}
	if err := build(ctx, o.root); err != nil {
		return err
	}
	if o.profiles != "" {
		if o.profiles, err = filepath.Abs(o.profiles); err != nil {
			return err
		}
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return err
		}
	}
	var exceeded []error
	for _, s := range selected {
		var t table
		for range o.runs {
			for operator := range strings.SplitSeq(o.operators, ",") {
				if !slices.Contains(s.operators, operator) {
					continue
				}
				rows, err := o.runOnce(ctx, s, operator)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, operator, err)
				}
				t.add(operator, rows)
			}
		}
		t.print(os.Stdout)
		exceeded = append(exceeded, o.limits.check(&t))
	}
	return errors.Join(exceeded...)
}

// build builds the operators into bin/bench of the main module.
func build(ctx context.Context, root string) error {
	for dir, program := range map[string]string{root: ".", filepath.Join(root, "bench"): "./byhand"} {
		bin, err := filepath.Abs(filepath.Join(root, "bin", "bench"))
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-C", dir, "-o", bin+string(filepath.Separator), program)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build %s in %s: %w", program, dir, err)
		}
	}
	return nil
}

// runOnce runs a scenario with an operator on a new control plane, by starting this program there.
func (o *options) runOnce(ctx context.Context, s scenario, operator string) ([]*row, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "rows")
	if err != nil {
		return nil, err
	}
	_ = file.Close() // only its name is needed
	defer func() { _ = os.Remove(file.Name()) }()
	home := filepath.Join(o.root, ".devcluster")
	cmd := exec.CommandContext(ctx, filepath.Join(home, "bin", "devcluster"), "-home", home, "-module",
		filepath.Join(o.root, "hack", "devcluster"),
		"-audit-policy", filepath.Join(o.root, "bench", "load", "audit.yaml"), "--",
		self, "-single", file.Name(), "-scenario", s.name, "-operator", operator, "-scale", fmt.Sprint(o.scale),
		"-idle", o.idle.String(),
		"-fescue-args", o.fescueArgs, "-by-hand-args", o.byHandArgs, "-profiles", o.profiles, "-root", o.root)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		return nil, err
	}
	var rows []*row
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, err
	}
	return rows, o.keep(s, operator, rows)
}

// keep appends rows to the file of -rows.
func (o *options) keep(s scenario, operator string, rows []*row) error {
	if o.rows == "" {
		return nil
	}
	file, err := os.OpenFile(o.rows, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	err = json.NewEncoder(file).Encode(map[string]any{"scenario": s.name, "operator": operator, "scale": o.scale,
		"rows": rows})
	return errors.Join(err, file.Close())
}

// single runs one scenario with one operator on the control plane of $DEVCLUSTER_DIR.
func single(ctx context.Context, o *options) error {
	selected, err := o.selected()
	if err != nil {
		return err
	}
	program, args, err := o.command(o.operators)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	rows, err := runScenario(ctx, selected[0], dir, settings{operator: o.operators, program: program, args: args,
		scale: o.scale, idle: o.idle, profiles: o.profiles})
	if err != nil {
		return err
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	return os.WriteFile(o.single, text, 0o600)
}

// command returns the program of an operator, and arguments for it.
func (o *options) command(operator string) (program string, args []string, err error) {
	bin := filepath.Join(o.root, "bin", "bench")
	switch operator {
	case fescue:
		return filepath.Join(bin, "fescue"), strings.Fields(o.fescueArgs), nil
	case byHand:
		return filepath.Join(bin, "byhand"), strings.Fields(o.byHandArgs), nil
	case floor:
		program, err = os.Executable()
		return program, nil, err
	}
	return "", nil, fmt.Errorf("-operator: invalid value %q: must be %s, %s or %s", operator, fescue, byHand, floor)
}

// runScenario runs a scenario with one operator on the control plane of $DEVCLUSTER_DIR, with its
// files in dir.
func runScenario(ctx context.Context, s scenario, dir string, with settings) ([]*row, error) {
	controlPlane := os.Getenv("DEVCLUSTER_DIR")
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(controlPlane, "admin.kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("run this under devcluster: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e, err := newEnvironment(ctx, config, controlPlane, dir, with)
	if err != nil {
		return nil, err
	}
	err = s.run(ctx, e)
	if e.process != nil {
		err = errors.Join(err, e.process.hasEnded(), e.process.stop())
	}
	return e.rows, err
}
