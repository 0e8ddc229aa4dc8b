package operator

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/engine"
	"github.com/fescue-dev/fescue/internal/operator/election"
	"github.com/fescue-dev/fescue/internal/operator/serving"
)

// Options are the flags of a running operator.
type Options struct {
	ClusterOptions
	// Namespaces limits the operator to these; none means all.
	Namespaces []string
	// Workers is the number of objects of one kind that are reconciled at the same time.
	Workers int
	// NormalEvents records Events of type Normal as well.
	NormalEvents bool
	// InstallCRDs installs or upgrades the CRDs of the kinds first.
	InstallCRDs bool
	// Version is reported in the log.
	Version string

	webhooks webhookOptions
	election election.Options
	serving  serving.Options
}

// AddFlags adds the flags of a running operator.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.ClusterOptions.AddFlags(flags)
	flags.StringSliceVarP(&o.Namespaces, "namespace", "n", nil,
		"namespaces to work in (repeatable or comma-separated); all by default")
	flags.IntVar(&o.Workers, "workers", engine.DefaultWorkers,
		"number of objects of one kind that are reconciled at the same time")
	flags.BoolVar(&o.NormalEvents, "normal-events", true,
		"record Events of type Normal, such as changes of phase; Warnings are always recorded")
	flags.BoolVar(&o.InstallCRDs, "install-crds", false,
		"install or upgrade the CRDs of the kinds, once this process leads")
	o.webhooks.addFlags(flags)
	o.election.AddFlags(flags)
	o.serving.AddFlags(flags)
}

// CheckNamespaces returns an error for each value of a flag that is not the name of a namespace, and for none at all:
// that of a variable without a value would otherwise mean all namespaces.
func CheckNamespaces(flag string, names []string) error {
	if names != nil && len(names) == 0 {
		names = []string{""}
	}
	var errs []error
	for _, name := range names {
		for _, problem := range validation.ValidateNamespaceName(name, false) {
			errs = append(errs, fmt.Errorf("%s: invalid value %q: %s", flag, name, problem))
		}
	}
	return errors.Join(errs...)
}

// Complete validates the flags and computes what they imply.
func (o *Options) Complete() error {
	if o.Workers < 1 {
		return fmt.Errorf("--workers: invalid value %d: must be at least 1", o.Workers)
	}
	return errors.Join(CheckNamespaces("--namespace", o.Namespaces), o.webhooks.complete(), o.election.Complete(install.MaxShards), o.serving.Complete())
}
