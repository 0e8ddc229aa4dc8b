package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
)

// maxObject is the size in bytes of the largest object that the API server stores: etcd's default
// of --max-request-bytes.
const maxObject = 1536 << 10

// explainCRDs prints the size of each CRD, and what enforces each rule of the kinds.
func explainCRDs(w io.Writer, kinds []*kind.Kind) error {
	for _, k := range kinds {
		if err := explainSize(w, k); err != nil {
			return err
		}
		for _, v := range k.Versions {
			if err := explainRules(w, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func explainSize(w io.Writer, k *kind.Kind) error {
	full, err := crds.Size(k, false)
	if err != nil {
		return err
	}
	bare, err := crds.Size(k, true)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s: %d KiB as JSON, %d KiB without descriptions; the limit is %d KiB\n",
		k.Name(), full>>10, bare>>10, maxObject>>10)
	return err
}

func explainRules(w io.Writer, v *kind.Version) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	write := func(columns ...any) {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", columns...) // Flush reports it
	}
	_, _ = fmt.Fprintf(table, "\n%s\n", v.GroupVersionKind.GroupVersion())
	write("FIELD", "RULE", "ENFORCED BY", "SOURCE")
	for _, e := range v.Enforcement() {
		write(e.Field, shortened(e.Words), e.By, e.Position)
	}
	write("", "no unknown fields", "admission and controller; the API server drops them", "")
	_, _ = fmt.Fprintln(table)
	return table.Flush()
}

// maxRule is the number of characters of a rule that a line shows.
const maxRule = 60

// quantity is how the rules of k8s.#Quantity end, whose name says more than their text.
const quantity = `(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"#`

func shortened(text string) string {
	if strings.HasSuffix(text, quantity) {
		return "k8s.#Quantity"
	}
	if all := []rune(text); len(all) > maxRule {
		return string(all[:maxRule-1]) + "…"
	}
	return text
}
