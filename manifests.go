package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
)

// defaultImage is the name that `make image` gives the image.
const defaultImage = "fescue:latest"

// stopDelay is how long it takes until no request comes to a Pod that is deleted: a second
// or two in a small cluster, some more where many rules have to be rewritten.
const stopDelay = 10 * time.Second

// installOptions say what is to be installed, or removed again.
type installOptions struct {
	kinds    kindOptions
	types    []string
	webhooks bool
	install.Options
}

func (o *installOptions) addFlags(c *cobra.Command) {
	o.kinds.addFlags(c)
	flags := c.Flags()
	flags.StringVar(&o.Namespace, "namespace", install.DefaultNamespace, "namespace that Fescue lives in")
	flags.StringVar(&o.Image, "image", defaultImage, "container image of Fescue")
	flags.StringSliceVar(&o.Namespaces, "namespaced", nil, "namespaces to work in, with rights in these alone; all if not given")
	flags.IntVar(&o.Shards, "shards", 1, "into how many shards objects are divided, by their UIDs, with a replica for each")
	flags.BoolVar(&o.InstallCRDs, "install-crds", false, "have Fescue install and upgrade its CRDs itself, with the rights that this takes")
	flags.BoolVar(&o.webhooks, "webhooks", true, "have the API server ask Fescue about objects of the kinds, and about Pods that want a sidecar")
	flags.StringArrayVar(&o.APIServers, "api-server-cidr", nil, "addresses that the API server calls the webhooks from, as in 10.0.0.0/28: the NetworkPolicy lets in no others (repeatable)")
	flags.BoolVar(&o.Monitoring, "service-monitor", false, "add a ServiceMonitor and alert rules for the Prometheus operator")
	flags.BoolVar(&o.MetricsAuth, "metrics-auth", false, "serve metrics by HTTPS, and only to those who have the right to get them, as by the ClusterRole whose name ends in -metrics-reader")
	flags.StringArrayVar(&o.types, "type", nil, "KIND.GROUP=PLURAL of a type of children that is not built into Kubernetes (repeatable)")
}

// parts makes the objects of an installation.
func (o *installOptions) parts() ([]install.Part, error) {
	if o.Shards < 1 {
		return nil, fmt.Errorf("--shards: invalid value %d: must be between 1 and %d", o.Shards, install.MaxShards)
	}
	loaded, err := o.kinds.load()
	if err := errors.Join(loaded.bad, err); err != nil {
		return nil, err
	}
	o.OwnKindsOnly = !o.kinds.shipped
	var sources []install.Source
	for _, dir := range o.kinds.dirs {
		source, err := readSource(dir)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	return o.partsFor(loaded.all, sources)
}

// partsFor makes the objects of an installation of kinds, some of which are mounted.
func (o *installOptions) partsFor(kinds []*kind.Kind, mounted []install.Source) ([]install.Part, error) {
	options := o.Options
	options.Sources, options.Types = mounted, make(install.Types)
	for _, text := range o.types {
		groupKind, plural, err := install.ParseType(text)
		if err != nil {
			return nil, fmt.Errorf("--type: %w", err)
		}
		options.Types[groupKind] = plural
	}
	if o.webhooks {
		options.Webhooks = installedWebhooks(kinds, options)
	}
	return install.Parts(kinds, options)
}

// installedWebhooks is what admission adds to an installation. The configurations have no
// caBundle: it is the leader's, and what is applied again leaves it alone.
func installedWebhooks(kinds []*kind.Kind, o install.Options) *install.Webhooks {
	const service, port = "fescue-webhooks", 9443
	called := o.ClusterName()
	mutating, validating := admission.Configurations(kinds, admission.Webhooks{
		Name:      called,
		Service:   &admissionregistrationv1.ServiceReference{Namespace: o.Namespace, Name: service},
		Namespace: o.Namespace, Namespaces: o.Namespaces,
	})
	args := []string{
		fmt.Sprintf("--webhook-service=%s/%s", o.Namespace, service), fmt.Sprintf("--webhook-listen=:%d", port),
		fmt.Sprintf("--shutdown-delay-duration=%s", stopDelay),
	}
	if called != admission.DefaultName {
		args = append(args, "--webhook-configuration="+called, fmt.Sprintf("--webhook-secret=%s/%s", o.Namespace, defaultSecret))
	}
	return &install.Webhooks{
		Port: port, Service: service, Secret: defaultSecret, ReadsNamespaces: slices.ContainsFunc(kinds, (*kind.Kind).Injects),
		Args: args, Configurations: []runtime.Object{mutating, validating},
	}
}

func newManifestsCommand() *cobra.Command {
	var o installOptions
	var outputDir string
	c := &cobra.Command{
		Use:   "manifests",
		Short: "Print everything that installs Fescue on a cluster",
		Long: `Print everything that installs Fescue on a cluster: its namespace, the CRDs of the
kinds, rights that are made from the kinds and go no further than they need, the Deployment
with what belongs to it, and the webhook configurations. Folders of --kinds become ConfigMaps that it mounts.`,
		Example: `  fescue manifests --image registry.example.com/fescue:v1 | kubectl apply --server-side -f -
  fescue manifests --kinds ./my-kinds --namespaced team-a,team-b`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			parts, err := o.parts()
			if err != nil {
				return err
			}
			if outputDir != "" {
				return writeKustomize(outputDir, parts)
			}
			text, err := install.YAML(install.Objects(parts))
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&outputDir, "output-dir", "", "write them into this folder instead, laid out for kustomize")
	return c
}

// readSource reads the CUE files of a folder of kinds, and checks that they make the
// same kinds where they are mounted: with nothing beside them but Fescue's own libraries.
func readSource(dir string) (install.Source, error) {
	source := make(install.Source)
	files, err := filepath.Glob(filepath.Join(dir, "*.cue"))
	if err != nil {
		return nil, fmt.Errorf("kinds folder %s: %w", dir, err)
	}
	for _, file := range append(files, filepath.Join(dir, "cue.mod", "module.cue")) {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it need not be a module
		}
		if err != nil {
			return nil, fmt.Errorf("kinds folder %s: %w", dir, err)
		}
		path, err := filepath.Rel(dir, file)
		if err != nil {
			return nil, fmt.Errorf("kinds folder %s: %w", dir, err)
		}
		source[filepath.ToSlash(path)] = string(text)
	}
	alone, err := os.MkdirTemp("", "fescue-kinds-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(alone) }()
	for path, content := range source {
		if err := writeFile(filepath.Join(alone, path), []byte(content)); err != nil {
			return nil, err
		}
	}
	if _, err := kind.FromDir(alone); err != nil {
		return nil, fmt.Errorf("kinds folder %s cannot be mounted by itself; copy what it imports into it, or build an image that has it all: %w", dir, err)
	}
	return source, nil
}

// writeKustomize writes the kustomize layout into a folder, and removes generated files
// that are no longer part of it.
func writeKustomize(dir string, parts []install.Part) error {
	files, err := install.Kustomize(parts)
	if err != nil {
		return err
	}
	for path, content := range files {
		if err := writeFile(filepath.Join(dir, path), content); err != nil {
			return err
		}
	}
	return filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		path, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if _, wanted := files[filepath.ToSlash(path)]; wanted {
			return nil
		}
		content, err := os.ReadFile(file)
		if err == nil && install.IsGenerated(content) {
			err = os.Remove(file)
		}
		return err
	})
}

func writeFile(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// isDefinition tells whether an object is a CRD.
func isDefinition(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

// reversed are objects in the order in which they are removed.
func reversed(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	objects = slices.Clone(objects)
	slices.Reverse(objects)
	return objects
}
