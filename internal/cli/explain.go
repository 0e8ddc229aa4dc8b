package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/engine/plan"
)

type explainOptions struct {
	kinds      kindOptions
	apiVersion string
}

func newExplainCommand() *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:   "explain KIND[.FIELD]...|CHECK",
		Short: "Describe a kind, the rules of a field, or an error of vet, without a cluster",
		Long: `Explain describes what 'kubectl explain' does not know of a kind. It needs no cluster.

For a kind it prints the behaviour: the phases and their transitions, the children with their
namespaces, the other objects it reads, the fields of the status it writes, and the fields it
reads. For a field it prints the rules, who enforces each (the CRD, or only admission and the
controller), and what the behaviour reads of the field.

KIND is the name of a kind, or its plural, singular or short name, with or without the
group. It may also be the name of a decorator. Lists and maps need no steps of their own:
watcher.spec.container.env.name.

CHECK is the name in brackets at the end of a line of 'fescue vet', such as unknown-field.
Explain prints the cause, and what to write instead.`,
		Example: `  fescue explain at
  fescue explain at.spec.schedule
  fescue explain --kinds ./my-kinds site.spec
  fescue explain unknown-field`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.explain(c.Context(), c.OutOrStdout(), args[0]) },
	}
	o.kinds.addFlags(c)
	c.Flags().StringVar(&o.apiVersion, "api-version", "",
		"the version of the kind, as GROUP/VERSION; the stored one by default")
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		kinds, _ := o.kinds.load(c.Context()) // those that load are offered
		var names []string
		for _, k := range kinds.All() {
			names = append(names, k.Names.Plural)
		}
		for _, k := range kinds.Decorators() {
			names = append(names, k.Title())
		}
		for _, e := range mistake.All() {
			names = append(names, string(e.Check))
		}
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return c
}

func (o explainOptions) explain(ctx context.Context, w io.Writer, arg string) error {
	if text := explainCheck(arg); text != "" {
		_, err := io.WriteString(w, text)
		return err
	}
	kinds, err := o.kinds.load(ctx)
	if err != nil {
		return errors.Join(kinds.BrokenError(), err)
	}
	if k := findDecorator(kinds, arg); k != nil {
		e := &explainer{kind: k, version: k.Version}
		e.decorator()
		_, err = io.WriteString(w, e.String())
		return errors.Join(err, kinds.BrokenError())
	}
	k, path, err := findKind(kinds, arg)
	if err != nil {
		return errors.Join(kinds.BrokenError(), err)
	}
	version := k.Version
	if o.apiVersion != "" {
		i := slices.IndexFunc(k.Versions,
			func(v *kind.Version) bool { return v.GroupVersionKind.GroupVersion().String() == o.apiVersion })
		if i < 0 {
			var known []string
			for _, v := range k.Versions {
				known = append(known, v.GroupVersionKind.GroupVersion().String())
			}
			return fmt.Errorf("--api-version: invalid value %q: %s has %s", o.apiVersion, k.GroupVersionKind.Kind,
				strings.Join(known, ", "))
		}
		version = k.Versions[i]
	}
	e := &explainer{kind: k, version: version}
	e.header()
	if len(path) == 0 {
		e.behaviour(k.Behaviour)
	} else {
		if err := checkField(version.Schema, k.GroupVersionKind.Kind, path); err != nil {
			return err
		}
		e.field(strings.Join(path, "."))
	}
	_, err = io.WriteString(w, e.String())
	return errors.Join(err, kinds.BrokenError())
}

// findDecorator returns the decorator of a name; nil if there is none.
func findDecorator(kinds *load.Kinds, name string) *kind.Kind {
	for _, k := range kinds.Decorators() {
		if strings.EqualFold(k.Title(), name) {
			return k
		}
	}
	return nil
}

// findKind returns the kind that an argument names, and the fields after it.
func findKind(kinds *load.Kinds, arg string) (found *kind.Kind, path []string, err error) {
	longest := ""
	var known []string
	for _, k := range kinds.All() {
		names := append([]string{k.Name(), k.GroupVersionKind.Kind, k.Names.Plural, k.Names.Singular},
			k.Names.ShortNames...)
		names = append(names, k.GroupVersionKind.GroupKind().String())
		known = append(known, k.Names.Plural)
		for _, name := range names {
			isPrefix := len(arg) >= len(name) && strings.EqualFold(arg[:len(name)], name) &&
				(len(arg) == len(name) || arg[len(name)] == '.')
			if !isPrefix || len(name) < len(longest) || name == "" {
				continue
			}
			if found != nil && found != k && len(name) == len(longest) {
				return nil, nil, fmt.Errorf("%q is the name of two kinds: write %s or %s", arg, found.Name(), k.Name())
			}
			found, longest = k, name
		}
	}
	if broken := slices.DeleteFunc(kinds.BrokenNames(), func(name string) bool { return name == "" }); found == nil &&
		len(kinds.Broken()) > 0 {
		return nil, nil, notLoaded(arg, broken)
	}
	if found == nil {
		return nil, nil, fmt.Errorf("unknown kind %q; known kinds are %s, and --kinds adds others%s", arg,
			strings.Join(known, ", "), nearCheck(arg))
	}
	if rest := strings.TrimPrefix(arg[len(longest):], "."); rest != "" {
		path = strings.Split(rest, ".")
	}
	return found, path, nil
}

// notLoaded is the error of a name that no loaded kind has, if some kinds failed to load. Of those only the names in
// their definitions are known; a package that cannot be read has none.
func notLoaded(arg string, broken []string) error {
	first, _, _ := strings.Cut(arg, ".")
	for _, name := range broken {
		plural, singular := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: name})
		if slices.Contains([]string{strings.ToLower(name), plural.Resource, singular.Resource},
			strings.ToLower(first)) {
			return fmt.Errorf("the kind %s failed to load", name)
		}
	}
	if len(broken) == 0 {
		return fmt.Errorf("no kind that loaded is named %q: it may be one of those that failed to load", first)
	}
	return fmt.Errorf("no kind that loaded is named %q: it may be one of those that failed to load: %s", first,
		strings.Join(broken, ", "))
}

// checkField returns an error if a kind has no field of a path. The schema of a CRD leaves the fields of metadata out.
func checkField(at *apiextensionsv1.JSONSchemaProps, kindName string, path []string) error {
	if path[0] == "metadata" {
		return nil
	}
	for i, name := range path {
		at = within(at)
		next, ok := at.Properties[name]
		if !ok {
			known := slices.Sorted(maps.Keys(at.Properties))
			where := strings.Join(append([]string{kindName}, path[:i]...), ".")
			if len(known) == 0 {
				return fmt.Errorf("%s has no field %q: it has no fields", where, name)
			}
			return fmt.Errorf("%s has no field %q; its fields are %s", where, name, strings.Join(known, ", "))
		}
		at = &next
	}
	return nil
}

// within returns what a list or a map consists of.
func within(s *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	for {
		switch {
		case s.Items != nil && s.Items.Schema != nil:
			s = s.Items.Schema
		case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil && len(s.Properties) == 0:
			s = s.AdditionalProperties.Schema
		default:
			return s
		}
	}
}

// withoutSteps drops from paths the steps into lists and maps, which an argument does not have.
var withoutSteps = strings.NewReplacer("[*]", "", ".{*}", "")

// explainer writes an explanation.
type explainer struct {
	strings.Builder
	kind    *kind.Kind
	version *kind.Version
}

func (e *explainer) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(e, format, args...) // it writes to memory
}

// table writes rows in columns below a title.
func (e *explainer) table(title string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	e.printf("\n%s:\n", title)
	table := tabwriter.NewWriter(e, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintf(table, "    %s\n", strings.Join(row, "\t")) // it writes to memory
	}
	_ = table.Flush()
}

func (e *explainer) header() {
	gvk, names := e.version.GroupVersionKind, e.kind.Names
	e.printf("GROUP:      %s\nKIND:       %s\nVERSION:    %s\n", gvk.Group, gvk.Kind, gvk.Version)
	e.printf("NAMES:      %s\n",
		strings.Join(slices.DeleteFunc(append([]string{names.Plural, names.Singular}, names.ShortNames...),
			func(n string) bool { return n == "" }), ", "))
	e.printf("SCOPE:      %s\n", e.kind.Scope)
	if e.kind.IsSelfService {
		e.printf("RIGHTS:     self-service (userRights: \"Kind\")\n")
	}
	e.finalizer()
}

// finalizer names what keeps a deleted object until nothing is left to do for it.
func (e *explainer) finalizer() {
	if e.kind.IsHeld() {
		e.printf("FINALIZER:  %s\n", plan.Finalizer)
	}
}

// decorator explains a decorator.
func (e *explainer) decorator() {
	gvk, target := e.kind.GroupVersionKind, e.kind.Target
	e.printf("DECORATOR:  %s\nGROUP:      %s\nKIND:       %s\nVERSION:    %s\nSCOPE:      %s\n", e.kind.Title(),
		gvk.Group, gvk.Kind, gvk.Version, e.kind.Scope)
	e.printf("FOR:        objects with %s\n", cmp.Or(target.String(), "any labels and annotations"))
	e.finalizer()
	e.behaviour(e.kind.Behaviour)
}

// field prints who enforces the rules of a field, and what the behaviour reads of it.
func (e *explainer) field(path string) {
	e.printf("FIELD:      %s\n", path)
	var rules, reads [][]string
	for _, rule := range e.version.Enforcement() {
		if rule.Words == "{…}" || withoutSteps.Replace(rule.Field) != path {
			continue
		}
		row := []string{shortened(rule.Words), rule.By.String(), rule.Position.String()}
		// a quantity has two
		if !slices.ContainsFunc(rules, func(other []string) bool { return slices.Equal(row, other) }) {
			rules = append(rules, row)
		}
	}
	e.table("RULES", rules)
	path = "object." + path + "."
	for _, read := range e.kind.Behaviour.Reads {
		if of := withoutSteps.Replace(read) + "."; strings.HasPrefix(of, path) || strings.HasPrefix(path, of) {
			reads = append(reads, []string{read})
		}
	}
	e.table("READ BY THE BEHAVIOUR", reads)
}

// behaviour explains what the controller does.
func (e *explainer) behaviour(b *kind.BehaviourFacts) {
	if len(b.Phases) > 0 {
		e.printf("\nPHASES:\n")
		for _, phase := range b.Phases {
			var notes []string
			for note, holds := range map[string]bool{"initial": phase.Name == e.kind.Initial,
				"on delete": phase.Name == e.kind.OnDelete, "terminal": phase.Terminal, "failed": phase.Failed} {
				if holds {
					notes = append(notes, note)
				}
			}
			slices.Sort(notes)
			e.printf("    %s\n", strings.TrimSpace(phase.Name+"   "+strings.Join(notes, ", ")))
			for _, t := range phase.Next {
				e.printf("      to %s", cmp.Or(t.To, "<computed>"))
				if t.When != "" {
					e.printf(" when %s", t.When)
				}
				for _, at := range [][2]string{{"after", t.After}, {"cron", t.Cron}, {"timeZone", t.TimeZone},
					{"startingDeadline", t.StartingDeadline}} {
					if at[1] != "" {
						e.printf(" %s %s", at[0], at[1])
					}
				}
				if t.Conditional {
					e.printf(mayDrop)
				}
				e.printf("\n")
			}
		}
	}
	e.children(b.Children)
	e.lookups()
	e.values("STATUS", b.Status)
	e.values("CONDITIONS", b.Conditions)
	if e.kind.Injects() {
		e.table("INJECTS INTO", [][]string{{"Pods with the annotation " + e.kind.InjectAnnotation}})
	}
	var reads [][]string
	for _, path := range b.Reads {
		reads = append(reads, []string{path})
	}
	e.table("READS", reads)
}

// children lists the children, with their namespaces if one may be outside of that of the object.
func (e *explainer) children(all []kind.ChildFacts) {
	namespaceOf := func(c kind.ChildFacts) string {
		switch {
		case slices.Contains(e.kind.OwnsOfCluster, schema.FromAPIVersionAndKind(c.APIVersion, c.Kind)):
			return "<none>"
		case c.Namespace == "":
			return ownNamespace
		}
		return c.Namespace
	}
	isElsewhere := slices.ContainsFunc(all, func(c kind.ChildFacts) bool { return namespaceOf(c) != ownNamespace })
	var rows [][]string
	add := func(name, typ, namespace string, rest ...string) {
		row := []string{name, typ}
		if isElsewhere {
			row = append(row, namespace)
		}
		rows = append(rows, append(row, rest...))
	}
	if len(all) > 0 {
		add("NAME", "TYPE", "NAMESPACE", "PHASE", "UPDATE", "CREATED")
	}
	for _, c := range all {
		typ := "<computed>"
		if c.Kind != "" {
			typ = c.APIVersion + " " + c.Kind
		}
		add(cmp.Or(c.Name, "<computed>"), typ, namespaceOf(c), cmp.Or(c.Phase, "all"), string(c.Update), createdText(c))
	}
	e.table("CHILDREN", rows)
}

// ownNamespace is the source of the namespace of an object.
const ownNamespace = "object.metadata.namespace"

// lookups lists the objects that the behaviour reads apart from its children.
func (e *explainer) lookups() {
	var rows [][]string
	for _, l := range e.kind.Lookups {
		if len(rows) == 0 {
			rows = append(rows, []string{"NAME", "TYPE", "NAMESPACE", "WHICH"})
		}
		namespace := cmp.Or(l.Namespace, "that of the object")
		if l.IsClusterScoped || l.Namespace == "" && e.kind.Scope == apiextensionsv1.ClusterScoped {
			namespace = "none"
			if !l.IsClusterScoped {
				namespace = "all"
			}
		}
		which := l.Which
		if l.Conditional {
			which += mayDrop
		}
		rows = append(rows, []string{cmp.Or(l.Name, "<computed>"), l.Type.GroupVersion().String() + " " + l.Type.Kind,
			namespace, which})
	}
	e.table("OTHER OBJECTS", rows)
}

// values lists what the behaviour writes.
func (e *explainer) values(title string, values []kind.ValueFacts) {
	var rows [][]string
	for _, v := range values {
		rows = append(rows, []string{v.Name, v.Source})
	}
	e.table(title, rows)
}

// createdText describes when a child is created, and how often.
func createdText(c kind.ChildFacts) string {
	text := "always"
	switch {
	case c.Replicas != "":
		text = c.Replicas + " times"
		if c.Ordered {
			text += ", one after the other"
		}
	case c.Phase != "" && c.Update == kind.Never:
		text = "once"
	}
	if c.When != "" && text == "always" {
		text = "as soon as " + c.When
	} else if c.When != "" {
		text += ", as soon as " + c.When
	}
	if c.Conditional {
		text += mayDrop
	}
	if c.OnDelete == kind.Orphan {
		text += "; stays when the object is deleted"
	}
	return text
}

// mayDrop marks what stands in an if or a loop.
const mayDrop = ", unless an if drops it"
