package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/operator"
)

// defaultImage is the name that `make image` gives the image.
const defaultImage = "fescue:latest"

// installOptions select what is installed, or removed again.
type installOptions struct {
	kinds    kindOptions
	types    []string
	webhooks bool
	install.Options
}

func (o *installOptions) addFlags(c *cobra.Command) {
	o.kinds.addFlags(c)
	flags := c.Flags()
	flags.StringVar(&o.Namespace, "namespace", install.DefaultNamespace, "namespace that Fescue is installed in")
	flags.StringVar(&o.Image, "image", defaultImage, "container image of Fescue")
	flags.StringSliceVar(&o.Namespaces, "namespaced", nil,
		"namespaces to work in, with rights in these only (repeatable or comma-separated); all by default")
	flags.IntVar(&o.Shards, "shards", 1,
		"number of shards that objects are divided into, by UID, with one replica for each")
	flags.BoolVar(&o.InstallCRDs, "install-crds", false,
		"let Fescue install and upgrade its CRDs itself, and grant it the rights to do so")
	flags.BoolVar(&o.webhooks, "webhooks", true,
		"register admission webhooks for objects of the kinds, and for Pods that request a sidecar")
	flags.StringArrayVar(
		&o.APIServers,
		"api-server-cidr",
		nil,
		"address range of the API server, like 10.0.0.0/28; the NetworkPolicy then allows no other clients of the webhooks (repeatable)",
	)
	flags.BoolVar(&o.Monitoring, "service-monitor", false,
		"add a ServiceMonitor and alert rules for the Prometheus operator")
	flags.BoolVar(&o.MetricsAuth, "metrics-auth", false,
		"serve metrics over HTTPS to authorized clients only, such as those with the ClusterRole whose name ends in -metrics-reader")
	flags.StringArrayVar(&o.types, "type", nil,
		"KIND.GROUP=PLURAL of a child type that is neither built into Kubernetes nor in a CRD of --types (repeatable)")
}

// load loads the kinds, and reads the folders that are mounted.
func (o *installOptions) load(ctx context.Context) (*load.Kinds, install.Options, error) {
	options := o.Options
	if err := errors.Join(operator.CheckNamespaces("--namespace", []string{o.Namespace}),
		operator.CheckNamespaces("--namespaced", o.Namespaces)); err != nil {
		return nil, options, err
	}
	if o.Shards < 1 {
		return nil, options, fmt.Errorf("--shards: invalid value %d: must be between 1 and %d", o.Shards,
			install.MaxShards)
	}
	loaded, err := o.kinds.load(ctx)
	if err := errors.Join(loaded.BrokenError(), err); err != nil {
		return nil, options, err
	}
	options.OwnKindsOnly, options.Types = !o.kinds.shipped, make(install.Types)
	maps.Copy(options.Types, loaded.Plurals())
	for _, text := range o.types {
		groupKind, plural, err := install.ParseType(text)
		if err != nil {
			return nil, options, fmt.Errorf("--type: %w", err)
		}
		options.Types[groupKind] = plural
	}
	for _, dir := range o.kinds.dirs {
		source, err := readSource(dir)
		if err != nil {
			return nil, options, err
		}
		options.Sources = append(options.Sources, source)
	}
	return loaded, options, nil
}

// parts returns the objects of an installation, and the kinds that it is for.
func (o *installOptions) parts(ctx context.Context) ([]install.Part, *load.Kinds, error) {
	loaded, options, err := o.load(ctx)
	if err != nil {
		return nil, nil, err
	}
	if o.webhooks {
		options.Webhooks = webhooksFor(loaded)(options)
	}
	parts, err := install.Parts(loaded.Behaviours(), options)
	return parts, loaded, err
}

// webhooksFor returns what admission adds to an installation of kinds.
func webhooksFor(loaded *load.Kinds) func(install.Options) *install.Webhooks {
	return func(options install.Options) *install.Webhooks {
		return operator.InstalledWebhooks(kind.WithoutDecorators(loaded.Behaviours()), options)
	}
}

// writeChart writes a Helm chart into a folder, whose values have the flags as defaults.
func (o *installOptions) writeChart(ctx context.Context, dir string) error {
	loaded, options, err := o.load(ctx)
	if err != nil {
		return err
	}
	files, err := install.Chart(loaded.Behaviours(), install.ChartOptions{
		Version: version, Defaults: options, Webhooks: webhooksFor(loaded), NoWebhooks: !o.webhooks,
	})
	if err != nil {
		return err
	}
	return writeGenerated(dir, []string{"templates"}, files, install.TemplateHeader)
}

func newManifestsCommand() *cobra.Command {
	var o installOptions
	var outputDir, chartDir string
	var argoCD bool
	c := &cobra.Command{
		Use:   "manifests",
		Short: "Print everything that installs Fescue on a cluster",
		Long: `Print everything that installs Fescue on a cluster: its namespace, the CRDs of the
kinds, least-privilege roles derived from the kinds, the Deployment with its Services and
policies, and the webhook configurations. Folders of --kinds become ConfigMaps that the
Deployment mounts.`,
		Example: `  fescue manifests --image registry.example.com/fescue:v1 | kubectl apply --server-side -f -
  fescue manifests --kinds ./my-kinds --namespaced team-a,team-b
  fescue manifests --kinds ./my-kinds --chart ./chart
  fescue manifests --kinds ./my-kinds --argocd | kubectl apply --server-side -n argocd -f -`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.kinds.proves = true
			if chartDir != "" {
				return o.writeChart(c.Context(), chartDir)
			}
			parts, loaded, err := o.parts(c.Context())
			if err != nil {
				return err
			}
			if outputDir != "" {
				files, err := install.Kustomize(parts)
				if err != nil {
					return err
				}
				return writeGenerated(outputDir, install.Folders(), files, install.Header)
			}
			objects := install.Objects(parts)
			if argoCD {
				configMap, err := install.ArgoCD(loaded.Behaviours())
				if err != nil {
					return err
				}
				objects = []*unstructured.Unstructured{configMap}
			}
			text, err := install.YAML(objects)
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&outputDir, "output-dir", "", "write files for kustomize into this folder, instead of printing")
	c.Flags().BoolVar(&argoCD, "argocd", false,
		"print a ConfigMap with the health checks of the kinds for Argo CD, and nothing else")
	c.Flags().StringVar(&chartDir, "chart", "",
		"write a Helm chart into this folder, instead of printing; other flags set the defaults of its values")
	c.MarkFlagsMutuallyExclusive("argocd", "output-dir", "chart")
	c.MarkFlagsMutuallyExclusive("chart", "namespace")    // Helm has this flag
	c.MarkFlagsMutuallyExclusive("chart", "install-crds") // the chart upgrades them
	return c
}

// readSource reads the CUE files of a folder of kinds, and checks that they load where they are
// mounted: with nothing next to them but Fescue's own libraries.
func readSource(dir string) (install.Source, error) {
	source := make(install.Source)
	folder := os.DirFS(dir)
	files, err := fs.Glob(folder, "*.cue")
	if err != nil {
		return nil, fmt.Errorf("kinds folder %s: %w", dir, err)
	}
	for _, file := range append(files, "cue.mod/module.cue") {
		if strings.HasPrefix(file, ".") || strings.HasPrefix(file, "_") {
			continue // CUE ignores it
		}
		info, err := fs.Stat(folder, file)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			continue // the folder need not be a module
		}
		text, err := fs.ReadFile(folder, file)
		if err == nil && !utf8.Valid(text) {
			err = fmt.Errorf("%s is not UTF-8, as the text of a ConfigMap must be", file)
		}
		if err != nil {
			return nil, fmt.Errorf("kinds folder %s: %w", dir, err)
		}
		source[file] = string(text)
	}
	if err := source.Validate(); err != nil {
		return nil, fmt.Errorf("kinds folder %s: %w", dir, err)
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
	if _, err := load.FromDir(alone); err != nil {
		return nil, fmt.Errorf("kinds folder %s cannot be mounted on its own; copy its imports into the folder, or build an image that contains them: %w", dir, err)
	}
	return source, nil
}

// writeGenerated writes files into a folder, and removes files from some of its subfolders that begin with a header and
// are no longer among them.
func writeGenerated(dir string, subfolders []string, files map[string][]byte, header string) error {
	for path, content := range files {
		if err := writeFile(filepath.Join(dir, path), content); err != nil {
			return err
		}
	}
	for _, subfolder := range subfolders {
		entries, err := os.ReadDir(filepath.Join(dir, subfolder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, entry := range entries {
			file := path.Join(subfolder, entry.Name())
			if _, wanted := files[file]; wanted || !entry.Type().IsRegular() {
				continue
			}
			content, err := os.ReadFile(filepath.Join(dir, file))
			if err == nil && bytes.HasPrefix(content, []byte(header)) {
				err = os.Remove(filepath.Join(dir, file))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func writeFile(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// isDefinition reports whether an object is a CRD.
func isDefinition(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "apiextensions.k8s.io",
		Kind: "CustomResourceDefinition"}
}

// reversed returns objects in the order in which they are removed.
func reversed(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	objects = slices.Clone(objects)
	slices.Reverse(objects)
	return objects
}
