package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/operator"
)

type statusOptions struct {
	operator.ClusterOptions
	namespace            string
	kinds                kindOptions
	allNamespaces, watch bool
	output               string
}

func newStatusCommand() *cobra.Command {
	var o statusOptions
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how the objects of all kinds are",
		Long: `Show how the objects of all kinds are: those that are not well first, then those that
something is still to be done for.`,
		Example: "  fescue status -A\n  fescue status --watch",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return status(c.Context(), c.OutOrStdout(), &o) },
	}
	o.kinds.addFlags(c)
	flags := c.Flags()
	o.ClusterOptions.AddFlags(flags)
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace to look in; the one of the kubeconfig context if not given")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "look in all namespaces")
	flags.BoolVarP(&o.watch, "watch", "w", false, "go on and print what changes")
	flags.StringVarP(&o.output, "output", "o", "table", "table or json")
	return c
}

func status(ctx context.Context, out io.Writer, o *statusOptions) error {
	if o.output != "table" && o.output != "json" {
		return fmt.Errorf("--output: invalid value %q: must be table or json", o.output)
	}
	loaded, err := o.kinds.load()
	if err := errors.Join(loaded.BrokenError(), err); err != nil {
		return err
	}
	o.UserAgent = userAgent()
	config, namespace, err := o.Config()
	if err != nil {
		return err
	}
	clients, err := operator.Connect(config)
	if err != nil {
		return err
	}
	if o.namespace != "" {
		namespace = o.namespace
	}
	if o.allNamespaces {
		namespace = metav1.NamespaceAll
	}
	p := newStatusPrinter(out, o, time.Now)
	if o.watch {
		return watchStatus(ctx, clients, loaded.All(), namespace, p)
	}
	var rows []statusRow
	for _, k := range loaded.All() {
		list, err := clients.Dynamic.Resource(k.GroupVersionResource()).Namespace(namespaceFor(k, namespace)).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // its CRD is not installed, so there is no object
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", k.Name(), err)
		}
		for i := range list.Items {
			rows = append(rows, rowOf(k, &list.Items[i]))
		}
	}
	return p.print(rows)
}

// namespaceFor is where the objects of a kind are looked for if the user asks for a
// namespace: those that live in none are shown with each, as by kubectl.
func namespaceFor(k *kind.Kind, namespace string) string {
	if k.Scope == apiextensionsv1.ClusterScoped {
		return metav1.NamespaceAll
	}
	return namespace
}

// health is how an object is, in the order in which objects are shown. The words are
// those of kstatus, by which GitOps tools wait, and degraded: Pods lack what the object adds
// to them, or have it from an older generation, until somebody replaces them.
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

// MarshalJSON writes the word.
func (h health) MarshalJSON() ([]byte, error) { return json.Marshal(h.String()) }

// statusRow is what is shown of one object.
type statusRow struct {
	Namespace  string             `json:"namespace,omitempty"`
	Kind       string             `json:"kind"`
	Group      string             `json:"group"`
	Name       string             `json:"name"`
	Health     health             `json:"health"`
	Phase      string             `json:"phase,omitempty"`
	Reason     string             `json:"reason,omitempty"`
	Message    string             `json:"message,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Created    metav1.Time        `json:"created"`
}

// rowOf reads the status of an object.
func rowOf(k *kind.Kind, object *unstructured.Unstructured) statusRow {
	row := statusRow{
		Namespace: object.GetNamespace(), Kind: k.GroupVersionKind.Kind, Group: k.GroupVersionKind.Group, Name: object.GetName(),
		Phase: kind.PhaseOf(object.Object), Created: object.GetCreationTimestamp(), Health: inProgress,
	}
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
		case c.Type == "Stalled" && c.Status == metav1.ConditionTrue, c.Type == "Succeeded" && c.Status == metav1.ConditionFalse:
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
	if c := meta.FindStatusCondition(row.Conditions, "Injected"); c != nil && c.Status == metav1.ConditionFalse && row.Health != failed {
		row.Health, row.Reason, row.Message = degraded, c.Reason, c.Message
	}
	switch {
	case object.GetDeletionTimestamp() != nil:
		row.Health, row.Reason, row.Message = inProgress, "Terminating", ""
	case held.Status.ObservedGeneration != object.GetGeneration() && row.Health == current:
		row.Health, row.Reason, row.Message = inProgress, "Changed", "the last change has not been looked at yet"
	}
	return row
}

// statusPrinter prints rows as its options say.
type statusPrinter struct {
	out    io.Writer
	o      *statusOptions
	now    func() time.Time
	colour bool
	// widths are those of the columns so far, so that rows that come later stand below.
	widths []int
}

func newStatusPrinter(out io.Writer, o *statusOptions, now func() time.Time) *statusPrinter {
	file, isFile := out.(*os.File)
	return &statusPrinter{out: out, o: o, now: now, colour: isFile && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""}
}

// print prints all rows: those that are not well first.
func (p *statusPrinter) print(rows []statusRow) error {
	slices.SortFunc(rows, func(a, b statusRow) int {
		return cmp.Or(cmp.Compare(a.Health, b.Health), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
	})
	if p.o.output == "json" {
		encoder := json.NewEncoder(p.out)
		if p.o.watch { // one object on each line, as they come
			for _, row := range rows {
				if err := encoder.Encode(row); err != nil {
					return err
				}
			}
			return nil
		}
		encoder.SetIndent("", "  ")
		return encoder.Encode(append([]statusRow{}, rows...))
	}
	if len(rows) == 0 && p.widths == nil && !p.o.watch {
		_, err := fmt.Fprintln(p.out, "no objects found")
		return err
	}
	table := make([][]string, 0, len(rows)+1)
	if p.widths == nil {
		header := []string{"OBJECT", "STATUS", "PHASE", "CONDITIONS", "AGE", "REASON"}
		if p.o.allNamespaces {
			header = append([]string{"NAMESPACE"}, header...)
		}
		p.widths = make([]int, len(header))
		table = append(table, header)
	}
	for _, row := range rows {
		table = append(table, p.cells(row))
	}
	for _, cells := range table {
		for i, cell := range cells {
			p.widths[i] = max(p.widths[i], len([]rune(cell)))
		}
	}
	for i, cells := range table {
		line := p.line(cells)
		if row := i - len(table) + len(rows); row >= 0 {
			line = p.paint(rows[row].Health, line)
		}
		if _, err := fmt.Fprintln(p.out, line); err != nil {
			return err
		}
	}
	return nil
}

func (p *statusPrinter) cells(row statusRow) []string {
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
	cells := []string{
		row.Kind + "/" + row.Name, row.Health.String(), cmp.Or(row.Phase, "-"), cmp.Or(strings.Join(conditions, ","), "-"),
		ageOf(p.now(), row.Created), cmp.Or(strings.ReplaceAll(reason, "\n", " "), "-"),
	}
	if p.o.allNamespaces {
		return append([]string{row.Namespace}, cells...)
	}
	return cells
}

// line writes cells as kubectl does, with three spaces between columns.
func (p *statusPrinter) line(cells []string) string {
	var line strings.Builder
	for i, cell := range cells {
		_, _ = fmt.Fprintf(&line, "%-*s   ", p.widths[i], cell)
	}
	return strings.TrimRight(line.String(), " ")
}

// paint shows what is not well in red and what is under way in yellow, on terminals.
func (p *statusPrinter) paint(h health, line string) string {
	colour := map[health]string{failed: "31", degraded: "31", inProgress: "33"}[h]
	if !p.colour || colour == "" {
		return line
	}
	return "\x1b[" + colour + "m" + line + "\x1b[0m"
}
