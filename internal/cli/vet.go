package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/proof"
	"github.com/fescue-dev/fescue/internal/vet"
)

// errFindings ends a command whose output has reported the errors.
var errFindings = errors.New("errors were found")

const vetHelp = `Vet checks manifests against their kinds. It needs no cluster and runs the same code as
the operator. It reads files, folders, and - for standard input; a file may contain several
documents and lists of objects. Like Kubernetes, it reads YAML 1.1; errors caused by this say so.

Each error is one line:

  FILE:LINE:COLUMN: KIND/NAME: FIELD: ERROR

What a check of Fescue found ends in its name, as in [unknown-field]: 'fescue explain
unknown-field' explains it. Valid manifests print nothing. The exit code is 1 after an error.

Vet skips objects of groups without a kind, and prints their number on standard error. Three
things are errors: an unknown kind or version in the group of a kind, a group at most two
letters from the group of a kind, and a run with no object to check. --ignore-unknown-kinds skips
these too; with --ignore-unknown-kinds=false each object of an unknown kind is an error.

With --kinds, vet also checks these kinds, and the templates of their children against the types
of Kubernetes, of the kinds, and of --types. Without manifests, it prints advice as well, which
does not change the exit code.

Vet also compares each kind of --kinds with CUE's own evaluator, for generated objects and
children: both must decide the same, because Fescue evaluates kinds itself. Without manifests, it
prints on standard error for how many objects, and how many ways through the ifs, the loops and
the disjunctions with a default these objects took.

For objects of the kinds of --kinds, vet also evaluates the behaviour: at their creation,
with the children in the same file (objects with the label fescue.dev/child), and on a
healthy cluster in memory, together with the objects in the same file it reads: for ten
minutes, and then at each time of a reconcile, while Jobs succeed, run on or fail. Then it
deletes the object. It is an error if the object would be Stalled, or if a child would not fit
its type. An object that never becomes ready is an error if it has everything it reads and
nothing else can change that, and advice otherwise. Vet also advises on phases an object
never enters, and on deleted objects that would stay for good.

-o json prints one document, {"errors": […], "advice": […], "objects": N, "skipped": N,
"proofs": […]}, with the numbers of checked and of skipped objects, and for each kind the
numbers of the comparison with CUE. Each error has a type and a message, and these fields if
known:

  file, line, column                   the position
  apiVersion, kind, namespace, name    the object
  field, value, detail                 the field, its value, and what is expected
  check                                the check that found it: see 'fescue explain CHECK'
  rule, source                         the rule in CUE, and its file and line

The type is that of a Kubernetes field error (FieldValueInvalid, FieldValueRequired, …) or
Unreadable, TooLarge, Syntax, DuplicateKey, UnknownKind, InvalidKind, NothingChecked, Stalled,
NeverReady.`

// vetOptions are the flags of fescue vet.
type vetOptions struct {
	kinds          kindOptions
	output         string
	recursive      bool
	ignoreUnknown  bool
	unknownChosen  bool // ignoreUnknown was given
	standardInput  io.Reader
	standardOutput io.Writer
	standardError  io.Writer
}

func newVetCommand() *cobra.Command {
	var o vetOptions
	c := &cobra.Command{
		Use:   "vet [FILE|DIR|-]...",
		Short: "Check manifests against their kinds, without a cluster",
		Long:  vetHelp,
		Example: `  fescue vet at.yaml
  fescue vet --kinds ./my-kinds -R ./manifests
  kubectl get ats -A -o yaml | fescue vet -
  fescue vet --kinds ./my-kinds`,
		RunE: func(c *cobra.Command, args []string) error {
			o.standardInput, o.standardOutput, o.standardError = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
			o.unknownChosen = c.Flags().Changed("ignore-unknown-kinds")
			return o.vet(c.Context(), args)
		},
	}
	o.kinds.addFlags(c)
	o.kinds.proves = true
	c.Flags().StringVarP(&o.output, "output", "o", "text", "output format: text or json")
	c.Flags().BoolVarP(&o.recursive, "recursive", "R", false, "read subfolders as well")
	c.Flags().BoolVar(&o.ignoreUnknown, "ignore-unknown-kinds", false,
		"skip all objects of unknown kinds, or with =false none; by default, skip those of groups without a kind")
	return c
}

// vet checks the manifests that args name, and prints its findings.
func (o vetOptions) vet(ctx context.Context, args []string) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("--output: invalid value %q: must be text or json", o.output)
	}
	if len(args) == 0 && len(o.kinds.dirs) == 0 {
		return errors.New(
			"nothing to vet: name files or folders with manifests, - for standard input, or --kinds DIR to check kinds; see 'fescue vet --help'")
	}
	if err := onceFromInput(args); err != nil {
		return err
	}
	kinds, err := o.kinds.load(ctx) // checks them as well (package check): Broken has the mistakes
	if err != nil {
		return errors.Join(kinds.BrokenError(), err)
	}
	v := vet.New(kinds)
	v.Skips = func(why kind.Unknown) bool {
		if o.unknownChosen {
			return o.ignoreUnknown
		}
		return why.Elsewhere
	}
	if len(args) == 0 {
		v.Advise(kinds.Added())
		o.printProofs(v.Report.Proofs, kinds.Added())
	}
	for _, arg := range args {
		readManifests(arg, o.recursive, o.standardInput, v.File)
	}
	if len(args) > 0 && !o.unknownChosen {
		v.CheckedSomething()
	}
	if err := v.Report.Print(escaped{o.standardOutput}, o.output); err != nil {
		return err
	}
	if o.output == "text" {
		printSkipped(escaped{o.standardError}, v.Skipped)
	}
	if len(v.Report.Errors) > 0 {
		return errFindings
	}
	return nil
}

// printSkipped prints how many objects were not checked, and the names of the first ones.
func printSkipped(w io.Writer, names []string) {
	const most = 5
	if len(names) == 0 {
		return
	}
	shown := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		shown += ", …"
	}
	_, _ = fmt.Fprintf(w, "objects skipped, because their kinds are unknown: %d (%s)\n", len(names), shown)
}

// printProofs says how far the kinds were compared with CUE, of those that loaded without a mistake.
func (o vetOptions) printProofs(proofs []load.Proof, loaded []*kind.Kind) {
	if o.output != "text" {
		return
	}
	for _, p := range proofs {
		switch {
		case !slices.ContainsFunc(loaded, func(k *kind.Kind) bool { return k.LoadName() == p.Kind }),
			p.Difference != nil:
		case p.Limit != "":
			_, _ = fmt.Fprintf(o.standardError, "#%s was not compared with CUE: that takes %s\n", p.Kind, p.Limit)
		case p.Compared == 0:
			_, _ = fmt.Fprintf(o.standardError, "#%s was not compared with CUE: %s\n", p.Kind, proof.Obstacle)
		case p.Ways == 0:
			_, _ = fmt.Fprintf(o.standardError, "#%s is as in CUE for %d objects\n", p.Kind, p.Compared)
		default:
			_, _ = fmt.Fprintf(o.standardError, "#%s is as in CUE for %d objects, which took %d of %d ways\n", p.Kind,
				p.Compared, p.Taken, p.Ways)
		}
		if p.Stalls != "" {
			_, _ = fmt.Fprintf(o.standardError, "advice: #%s: each object that vet made up would be stalled: %s\n", p.Kind,
				p.Stalls)
		}
	}
}
