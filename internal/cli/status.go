package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/operator"
)

type statusOptions struct {
	operator.ClusterOptions
	namespace     string
	kinds         kindOptions
	allNamespaces bool
	output        string
}

func newStatusCommand() *cobra.Command {
	var o statusOptions
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the health of all objects, unhealthy first",
		Long: `Show the health of the objects of the shipped kinds and of those of --kinds: unhealthy
objects first, then those in progress. To watch objects, use 'kubectl get KIND --watch'.

STATUS uses the words of kstatus: Failed, InProgress and Current. Degraded means that Pods do not
have what the object injects. Under CONDITIONS, ! means False and ? Unknown. For each decorator of
--kinds, its targets appear with its name, by the state of their children.

Objects of other kinds are missing. If you may list CRDs, a note on standard error names each CRD of a
kind that is not loaded, if it still has objects in the namespace.`,
		Example: "  fescue status -A",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return status(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), &o)
		},
	}
	o.kinds.addFlags(c)
	flags := c.Flags()
	o.AddFlags(flags)
	flags.StringVarP(&o.namespace, "namespace", "n", "",
		"namespace of the objects; defaults to the namespace of the kubeconfig context")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "show objects in all namespaces")
	flags.StringVarP(&o.output, "output", "o", "table", "output format: table or json")
	completeCluster(c, &o.ClusterOptions)
	return c
}

func status(ctx context.Context, out, notes io.Writer, o *statusOptions) error {
	if o.output != "table" && o.output != "json" {
		return fmt.Errorf("--output: invalid value %q: must be table or json", o.output)
	}
	loaded, err := o.kinds.load(ctx)
	if err != nil {
		return err
	}
	clients, namespace, err := connect(&o.ClusterOptions)
	if err != nil {
		return err
	}
	if o.namespace != "" {
		namespace = o.namespace
	}
	if o.allNamespaces {
		namespace = metav1.NamespaceAll
	}
	var rows []statusRow
	// neither a kind that fails to load nor one that cannot be listed hides another
	errs := []error{loaded.BrokenError()}
	for _, k := range loaded.All() {
		list, err := clients.Dynamic.Resource(k.GroupVersionResource()).Namespace(namespaceFor(k, namespace)).List(ctx,
			metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // its CRD is not installed, so there is no object
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("list %s: %w", k.Name(), err))
			continue
		}
		for i := range list.Items {
			rows = append(rows, rowOf(k, &list.Items[i]))
		}
	}
	rows, err = addDecorated(ctx, clients, loaded.Decorators(), namespace, rows)
	errs = append(errs, err, noteUnloaded(ctx, notes, clients, loaded.All(), namespace))
	if err := errors.Join(errs...); len(rows) == 0 && err != nil {
		return err
	}
	p := &statusPrinter{out: out, o: o, now: time.Now, colour: printers.AllowsColorOutput(out)}
	return errors.Join(p.print(rows), errors.Join(errs...))
}

// noteUnloaded prints the CRDs of kinds that are not among these, and that have objects. A user who may not list the
// CRDs, or the objects, gets no note of them.
func noteUnloaded(
	ctx context.Context, notes io.Writer, clients *operator.Clients, kinds []*kind.Kind, namespace string,
) error {
	names, err := clients.Unloaded(ctx, kinds)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list CRDs: %w", err)
	}
	for _, name := range names {
		hasObjects, err := clients.HasObjects(ctx, name, namespace)
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		case err != nil: // such as those that need the conversion of an installation that is gone
			_, _ = fmt.Fprintf(notes, "note: objects of %s are not shown: %v\n", name, err)
		case hasObjects:
			_, _ = fmt.Fprintf(
				notes,
				"note: objects of %s are not shown: its kind is not among those loaded. Name its folder with --kinds; if no operator runs it, nothing reconciles them\n",
				name,
			)
		}
	}
	return nil
}

// namespaceFor returns the namespace in which to list objects of a kind when the user selects
// one. Cluster-scoped objects are always listed, as by kubectl.
func namespaceFor(k *kind.Kind, namespace string) string {
	if k.Scope == apiextensionsv1.ClusterScoped {
		return metav1.NamespaceAll
	}
	return namespace
}

// health is the health of an object, in the order in which objects are shown. The words are those
// of kstatus, which GitOps tools wait by, and degraded: some Pods have no sidecar or an outdated
// one, until someone replaces them.
type health int

const (
	failed health = iota
	degraded
	inProgress
	current
)

func (h health) String() string {
	return [...]string{"Failed", "Degraded", "InProgress", "Current"}[h]
}

// MarshalJSON implements json.Marshaler.
func (h health) MarshalJSON() ([]byte, error) { return json.Marshal(h.String()) }

// statusRow is the health of one object.
type statusRow struct {
	Namespace  string             `json:"namespace,omitempty"`
	Kind       string             `json:"kind"`
	Group      string             `json:"group"`
	Name       string             `json:"name"`
	Decorator  string             `json:"decorator,omitempty"`
	Health     health             `json:"health"`
	Phase      string             `json:"phase,omitempty"`
	Reason     string             `json:"reason,omitempty"`
	Message    string             `json:"message,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Created    metav1.Time        `json:"created"`
}

// newRow names an object, which is in progress as far as nothing else is known of it.
func newRow(k *kind.Kind, object *unstructured.Unstructured) statusRow {
	return statusRow{
		Namespace: object.GetNamespace(), Kind: k.GroupVersionKind.Kind, Group: k.GroupVersionKind.Group,
		Name:    object.GetName(),
		Created: object.GetCreationTimestamp(), Health: inProgress,
	}
}

// rowOf reads the status of an object.
func rowOf(k *kind.Kind, object *unstructured.Unstructured) statusRow {
	row := newRow(k, object)
	row.Phase = k.PhaseOf(object.Object)
	var held struct {
		Status struct {
			ObservedGeneration int64              `json:"observedGeneration"`
			Conditions         []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if text, err := object.MarshalJSON(); err != nil || json.Unmarshal(text, &held) != nil {
		row.Reason = "Unreadable" // not written by Fescue
		return row
	}
	row.Conditions = held.Status.Conditions
	for _, c := range row.Conditions {
		main := c.Type == "Ready" || c.Type == "Succeeded"
		switch {
		case c.Type == "Stalled" && c.Status == metav1.ConditionTrue, c.Type == "Succeeded" &&
			c.Status == metav1.ConditionFalse:
			row.Health = failed
		case main && c.Status == metav1.ConditionTrue && row.Health != failed:
			row.Health = current
		case !main:
			continue
		}
		if row.Reason == "" || c.Type == "Stalled" {
			row.Reason, row.Message = c.Reason, c.Message
		}
	}
	if c := meta.FindStatusCondition(row.Conditions, "Injected"); c != nil && c.Status == metav1.ConditionFalse &&
		row.Health != failed {
		row.Health, row.Reason, row.Message = degraded, c.Reason, c.Message
	}
	switch {
	case object.GetDeletionTimestamp() != nil:
		row.Health, row.Reason, row.Message = inProgress, "Terminating", ""
	case held.Status.ObservedGeneration != object.GetGeneration() && row.Health == current:
		row.Health, row.Reason, row.Message = inProgress, "Changed", "the last change has not been reconciled yet"
	}
	return row
}

// statusPrinter prints rows in the form that its options select.
type statusPrinter struct {
	out    io.Writer
	o      *statusOptions
	now    func() time.Time
	colour bool
}

// print prints all rows, unhealthy objects first.
func (p *statusPrinter) print(rows []statusRow) error {
	slices.SortFunc(rows, func(a, b statusRow) int {
		return cmp.Or(cmp.Compare(a.Health, b.Health), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
	})
	if p.o.output == "json" {
		encoder := json.NewEncoder(p.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(append([]statusRow{}, rows...))
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(p.out, "no objects found")
		return err
	}
	return p.printTable(rows)
}

// printTable prints rows as kubectl does.
func (p *statusPrinter) printTable(rows []statusRow) error {
	columns := []string{"Object", "Status", "Phase", "Conditions", "Age", "Reason"}
	if p.o.allNamespaces {
		columns = append([]string{"Namespace"}, columns...)
	}
	table := &metav1.Table{}
	for _, name := range columns {
		table.ColumnDefinitions = append(table.ColumnDefinitions,
			metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, row := range rows {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: p.cells(row)})
	}
	var lines bytes.Buffer
	if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, &lines); err != nil {
		return err
	}
	for i, line := range slices.Collect(strings.Lines(lines.String())) {
		line = strings.TrimRight(line, " \n")
		if i > 0 { // below the header
			line = p.paint(rows[i-1].Health, line)
		}
		if _, err := fmt.Fprintln(p.out, line); err != nil {
			return err
		}
	}
	return nil
}

func (p *statusPrinter) cells(row statusRow) []any {
	var conditions []string
	for _, c := range row.Conditions {
		switch c.Status {
		case metav1.ConditionTrue:
			conditions = append(conditions, c.Type)
		case metav1.ConditionFalse:
			conditions = append(conditions, "!"+c.Type)
		default:
			conditions = append(conditions, "?"+c.Type)
		}
	}
	reason := row.Reason
	if row.Message != "" {
		reason += ": " + row.Message
	}
	name := row.Kind + "/" + row.Name
	if row.Decorator != "" {
		name += " (" + row.Decorator + ")"
	}
	cells := []any{
		name, row.Health.String(), cmp.Or(row.Phase, "-"), cmp.Or(strings.Join(conditions, ","), "-"),
		duration.HumanDuration(p.now().Sub(row.Created.Time)), cmp.Or(strings.ReplaceAll(reason, "\n", "; "), "-"),
	}
	if p.o.allNamespaces {
		return append([]any{row.Namespace}, cells...)
	}
	return cells
}

// paint colours unhealthy objects red and objects in progress yellow, on terminals.
func (p *statusPrinter) paint(h health, line string) string {
	colour := map[health]string{failed: "31", degraded: "31", inProgress: "33"}[h]
	if !p.colour || colour == "" {
		return line
	}
	return "\x1b[" + colour + "m" + line + "\x1b[0m"
}
