package cli

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/operator"
)

func newCRDCommand() *cobra.Command {
	var selected kindOptions
	var outputDir, url, service string
	var bare, explained bool
	c := &cobra.Command{
		Use:   "crd",
		Short: "Print the CustomResourceDefinitions of the kinds",
		Long: `Print the CustomResourceDefinitions of the kinds: those of --kinds, and then the shipped ones.

A CRD cannot express every rule of CUE. --explain prints the size of each CRD, and for each rule
where it stands and what enforces it: the CRD's schema, a CEL rule in the CRD, or Fescue itself,
at admission and on every reconcile.

Apply CRDs with --server-side. Plain 'kubectl apply' copies each CRD into an annotation, and fails
above 256 KiB (metadata.annotations: Too long), as for kinds with a Pod template. --no-descriptions
makes large CRDs smaller.

The CRD of a kind with conversions between its versions has the address of the webhook for
these conversions.`,
		Example: "  fescue crd | kubectl apply --server-side -f -\n  fescue crd --kinds ./my-kinds --explain",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := operator.ConversionWebhook(url, service)
			if err != nil {
				return err
			}
			kinds, err := selected.load(c.Context())
			err = errors.Join(kinds.BrokenError(), err)
			switch {
			case explained:
				return errors.Join(err, explainCRDs(c.OutOrStdout(), ownFirst(kinds)))
			case outputDir != "":
				return errors.Join(err, writeDefinitions(outputDir, kinds.All(), bare, at))
			}
			text, yamlErr := crds.YAML(bare, at, ownFirst(kinds)...)
			_, writeErr := c.OutOrStdout().Write(text)
			return errors.Join(err, yamlErr, writeErr)
		},
	}
	selected.addFlags(c)
	selected.proves = true
	c.Flags().BoolVar(&bare, "no-descriptions", false, "omit descriptions, which make up most of a large CRD")
	c.Flags().BoolVar(&explained, "explain", false, "print what enforces each rule, instead of the CRDs")
	c.Flags().StringVar(&url, "webhook-url", "",
		"URL at which the API server reaches the webhooks, for kinds with conversions")
	c.Flags().StringVar(
		&service,
		"webhook-service",
		"",
		"NAMESPACE/NAME[:PORT] of the Service at which the API server reaches the webhooks, for kinds with conversions (default \""+crds.DefaultNamespace+"/"+crds.WebhookService+"\")",
	)
	c.Flags().StringVar(&outputDir, "output-dir", "", "write one file per kind into this folder, instead of printing")
	c.MarkFlagsMutuallyExclusive("explain", "output-dir")
	return c
}

// ownFirst returns all kinds, and those of --kinds before the shipped ones: they are what the user looks for.
func ownFirst(kinds *load.Kinds) []*kind.Kind {
	all := kinds.All() // the shipped ones were loaded first
	own := max(0, slices.IndexFunc(all, func(k *kind.Kind) bool { return slices.Contains(kinds.Added(), k) }))
	return slices.Concat(all[own:], all[:own])
}

// writeDefinitions writes GROUP_PLURAL.yaml for each kind, as controller-gen names such files.
func writeDefinitions(dir string, kinds []*kind.Kind, bare bool, at crds.Webhook) error {
	for _, k := range kinds {
		text, err := crds.YAML(bare, at, k)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, k.GroupVersionKind.Group+"_"+k.Names.Plural+".yaml")
		if err := writeFile(file, text); err != nil {
			return err
		}
	}
	return nil
}
