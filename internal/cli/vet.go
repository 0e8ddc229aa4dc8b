package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/proof"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/internal/manifest"
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
	c.Flags().BoolVar(&o.ignoreUnknown, "ignore-unknown-kinds", false, "skip all objects of unknown kinds, or with =false none; by default, skip those of groups without a kind")
	return c
}

// vet checks the manifests that args name, and prints its findings.
func (o vetOptions) vet(ctx context.Context, args []string) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("--output: invalid value %q: must be text or json", o.output)
	}
	if len(args) == 0 && len(o.kinds.dirs) == 0 {
		return errors.New("nothing to vet: name files or folders with manifests, - for standard input, or --kinds DIR to check kinds; see 'fescue vet --help'")
	}
	kinds, err := o.kinds.load(ctx) // checks them as well (package check): Broken has the mistakes
	if err != nil {
		return errors.Join(kinds.BrokenError(), err)
	}
	v := newVetter(kinds)
	v.skips = func(why kind.Unknown) bool {
		if o.unknownChosen {
			return o.ignoreUnknown
		}
		return why.Elsewhere
	}
	if len(args) == 0 {
		v.advise(kinds.Added())
		o.printProofs(v.report.Proofs, kinds.Added())
	}
	for _, arg := range args {
		readManifests(arg, o.recursive, o.standardInput, v.vetFile)
	}
	if len(args) > 0 && !o.unknownChosen {
		v.checkedSomething()
	}
	if err := v.report.print(o.standardOutput, o.output); err != nil {
		return err
	}
	if v.report.Skipped > 0 && o.output == "text" {
		_, _ = fmt.Fprintf(o.standardError, "skipped, because their kinds are unknown: %d objects\n", v.report.Skipped)
	}
	if len(v.report.Errors) > 0 {
		return errFindings
	}
	return nil
}

// printProofs says how far the kinds were compared with CUE, of those that loaded without a mistake.
func (o vetOptions) printProofs(proofs []load.Proof, loaded []*kind.Kind) {
	if o.output != "text" {
		return
	}
	for _, p := range proofs {
		switch {
		case !slices.ContainsFunc(loaded, func(k *kind.Kind) bool { return k.LoadName() == p.Kind }), p.Difference != nil:
		case p.Limit != "":
			_, _ = fmt.Fprintf(o.standardError, "#%s was not compared with CUE: that takes %s\n", p.Kind, p.Limit)
		case p.Compared == 0:
			_, _ = fmt.Fprintf(o.standardError, "#%s was not compared with CUE: %s\n", p.Kind, proof.Obstacle)
		case p.Ways == 0:
			_, _ = fmt.Fprintf(o.standardError, "#%s is as in CUE for %d objects\n", p.Kind, p.Compared)
		default:
			_, _ = fmt.Fprintf(o.standardError, "#%s is as in CUE for %d objects, which took %d of %d ways\n", p.Kind, p.Compared, p.Taken, p.Ways)
		}
	}
}

// vetter checks objects and collects findings.
type vetter struct {
	catalog *load.Kinds
	// skips reports whether to skip objects that the catalog has no kind for.
	skips  func(kind.Unknown) bool
	report report
}

// newVetter returns a vetter that has reported the kinds that failed to load.
func newVetter(catalog *load.Kinds) *vetter {
	v := &vetter{
		catalog: catalog,
		skips:   func(kind.Unknown) bool { return false },
		report:  report{Errors: []finding{}, Proofs: catalog.Proofs()}, // an empty list in JSON, not null
	}
	for _, broken := range catalog.Broken() {
		placeless := *broken
		placeless.File = ""
		v.report.Errors = append(v.report.Errors, finding{
			Check: broken.Check, Type: invalidKindType, File: broken.File, Line: broken.Line, Message: placeless.Error(),
		})
	}
	return v
}

// advise collects advice for the authors of kinds.
func (v *vetter) advise(kinds []*kind.Kind) {
	var last []finding // limits matter least
	for _, k := range kinds {
		for _, a := range k.Advice {
			v.report.Advice = append(v.report.Advice, adviceFinding(k.Version, a))
		}
		for _, version := range k.Versions {
			if a := version.UnboundedAdvice(); a != nil {
				last = append(last, adviceFinding(version, *a))
			}
		}
	}
	v.report.Advice = append(v.report.Advice, last...)
}

func adviceFinding(version *kind.Version, a kind.Advice) finding {
	return finding{
		File: a.Position.File, Line: a.Position.Line,
		APIVersion: version.GroupVersionKind.GroupVersion().String(), Kind: version.GroupVersionKind.Kind,
		Check: a.Check, Field: a.Field, Type: adviceType, Message: "advice: " + a.Text,
	}
}

// readObjects reads the objects in a file; findings report what cannot be read.
func readObjects(f manifestFile) (objects []manifest.Object, findings []finding) {
	if f.err != nil {
		return nil, []finding{{Check: mistake.UnreadableFile, File: f.name, Type: unreadableType, Message: f.err.Error()}}
	}
	objects, errs := manifest.Read(f.name, f.text)
	for _, err := range errs {
		check := mistake.InvalidManifest
		if err.Type == manifest.TooLarge {
			check = mistake.UnreadableFile
		}
		findings = append(findings, finding{Check: check, Type: string(err.Type), Message: err.Message}.at(err.Position))
	}
	return objects, findings
}

// vetFile checks one file. Its findings are sorted by position.
func (v *vetter) vetFile(f manifestFile) {
	objects, findings := readObjects(f)
	for i, object := range objects {
		others := slices.Delete(slices.Clone(objects), i, i+1)
		findings = append(findings, v.vetObject(object, others)...)
	}
	slices.SortStableFunc(findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	// Several alternatives of a schema can reject a field with the same message.
	findings = slices.CompactFunc(findings, func(a, b finding) bool { return a.String() == b.String() })
	v.report.Errors = append(v.report.Errors, findings...)
}

// vetObject checks an object; others are those in the same file.
func (v *vetter) vetObject(object manifest.Object, others []manifest.Object) []finding {
	gvk, errs := typeOf(object.Content)
	if len(errs) > 0 {
		return fieldFindings(object, errs)
	}
	if gvk == (schema.GroupVersionKind{Version: "v1", Kind: "List"}) { // a readable list was replaced by its items
		return fieldFindings(object, brokenItems(object.Content))
	}
	k := v.catalog.ByGVK(gvk)
	switch {
	case k != nil:
		v.report.Objects++
		content := kind.WithName(object.Content)
		if problems := k.Problems(content); len(problems) > 0 {
			return problemFindings(object, problems)
		}
		content, errs := k.AsStored(content)
		if len(errs) > 0 {
			return fieldFindings(object, errs)
		}
		if errs := inject.Check(k, stored(content)); len(errs) > 0 {
			return fieldFindings(object, errs)
		}
		var findings []finding
		if slices.Contains(v.catalog.Added(), k) {
			findings = v.stallFindings(k, object, content, others)
		}
		return append(findings, v.vetDecorated(gvk, object, others)...)
	case len(v.catalog.DecoratorsOf(gvk)) > 0:
		v.report.Objects++
		content := kind.WithName(object.Content)
		if errs := v.catalog.ValidateChild(content); len(errs) > 0 {
			return fieldFindings(object, errs)
		}
		return v.vetDecorated(gvk, object, others)
	case v.isForBehaviour(gvk, object):
		return nil
	}
	why := v.catalog.WhyUnknown(gvk)
	if v.skips(why) {
		v.report.Skipped++
		return nil
	}
	return []finding{unknownKind(object, gvk, why)}
}

// checkedSomething reports it as an error if no object was checked and nothing else is wrong: a misspelled path
// or group would pass for valid manifests.
func (v *vetter) checkedSomething() {
	if v.report.Objects > 0 || len(v.report.Errors) > 0 {
		return
	}
	v.report.Errors = append(v.report.Errors, finding{
		Check:   mistake.NothingChecked,
		Type:    nothingCheckedType,
		Message: "no object was checked: " + v.catalog.WhyUnknown(schema.GroupVersionKind{}).Reason + "; --kinds adds kinds",
	})
}

// vetDecorated reports where the decorators of an object would be stalled.
func (v *vetter) vetDecorated(gvk schema.GroupVersionKind, object manifest.Object, others []manifest.Object) (findings []finding) {
	for _, k := range v.catalog.DecoratorsOf(gvk) {
		content := kind.WithName(object.Content)
		if children.Decorates(k, &unstructured.Unstructured{Object: content}) {
			findings = append(findings, v.stallFindings(k, object, content, others)...)
		}
	}
	return findings
}

// stored returns an object with the metadata that the API server would have added, which a
// behaviour may read.
func stored(object map[string]any) map[string]any {
	metadata := map[string]any{
		"namespace": metav1.NamespaceDefault, "uid": "00000000-0000-4000-8000-000000000000", "resourceVersion": "1",
		"generation": int64(1), "creationTimestamp": "2026-01-01T00:00:00Z",
	}
	given, _ := object["metadata"].(map[string]any)
	maps.Copy(metadata, given)
	object = maps.Clone(object)
	object["metadata"] = metadata
	return object
}

// brokenItems returns the error of a List whose items cannot be read.
func brokenItems(content map[string]any) field.ErrorList {
	path := field.NewPath("items")
	if value, ok := content["items"]; ok {
		return field.ErrorList{field.TypeInvalid(path, value, "must be a list")}
	}
	return field.ErrorList{field.Required(path, "must list the objects")}
}

// typeOf reads the apiVersion and kind of an object.
func typeOf(content map[string]any) (gvk schema.GroupVersionKind, errs field.ErrorList) {
	read := func(name string) string {
		path := field.NewPath(name)
		text, isString := content[name].(string)
		switch {
		case content[name] == nil || isString && text == "":
			errs = append(errs, field.Required(path, ""))
		case !isString:
			errs = append(errs, field.TypeInvalid(path, content[name], "must be string"))
		}
		return text
	}
	apiVersion, kindName := read("apiVersion"), read("kind")
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), apiVersion, "must be GROUP/VERSION, or VERSION for the core group"))
	}
	return gv.WithKind(kindName), errs
}
