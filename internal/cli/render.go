package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/engine/simulate"
	"github.com/fescue-dev/fescue/internal/manifest"
)

type renderOptions struct {
	files, observed []string
	kinds           kindOptions
	now, output     string

	standardInput  io.Reader
	standardOutput io.Writer
}

func newRenderCommand() *cobra.Command {
	var o renderOptions
	c := &cobra.Command{
		Use:   "render -f FILE [--observed FILE]",
		Short: "Show what the controller would do for an object, without a cluster",
		Long: `Render shows what the controller would do now for each object in a file. It runs the
controller's own code without a cluster, and prints the writes, the resulting children,
the status with its conditions, and the time of the next reconcile. It assumes that every
write succeeds, and leaves out what the API server or other controllers would add. The exit
code is 1 if an object is Stalled.

--observed adds existing objects: children and objects the kind reads. If the children come from
a cluster, as 'kubectl get -o yaml' prints them, take the object itself from there too, because
children name the UID of their owner. In children written by hand, the label fescue.dev/child
names the child of the kind. Objects written by hand may also be in the file of the object.`,
		Example: `  fescue render -f at.yaml
  fescue render -f at.yaml --now 2030-01-01T00:00:00Z -o json
  kubectl get at hello -o yaml > live.yaml
  kubectl get pods -o yaml | fescue render -f live.yaml --observed -`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.standardInput, o.standardOutput = c.InOrStdin(), c.OutOrStdout()
			return o.render(c.Context())
		},
	}
	o.kinds.addFlags(c)
	c.Flags().StringArrayVarP(&o.files, "filename", "f", nil, "file or folder with the objects, or - for standard input (repeatable)")
	c.Flags().StringArrayVar(&o.observed, "observed", nil, "file or folder with existing objects, such as children, or - for standard input (repeatable)")
	c.Flags().StringVar(&o.now, "now", "", "time to render for, in RFC 3339; the current time by default")
	c.Flags().StringVarP(&o.output, "output", "o", "yaml", "output format: yaml or json")
	if err := c.MarkFlagRequired("filename"); err != nil {
		panic(err) // the flag was added above
	}
	return c
}

// rendered is the output for one object.
type rendered struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Decorator  string `json:"decorator,omitempty"`
	*simulate.Rendering
}

func (o renderOptions) render(ctx context.Context) error {
	if o.output != "yaml" && o.output != "json" {
		return fmt.Errorf("--output: invalid value %q: must be yaml or json", o.output)
	}
	now := time.Now()
	if o.now != "" {
		var err error
		if now, err = time.Parse(time.RFC3339, o.now); err != nil {
			return fmt.Errorf("--now: invalid value %q: must be a time in RFC 3339, like 2006-01-02T15:04:05Z", o.now)
		}
	}
	kinds, err := o.kinds.load(ctx)
	if err != nil {
		return err
	}
	objects, err := o.read(o.files)
	if err != nil {
		return err
	}
	existing, err := o.read(o.observed)
	if err != nil {
		return err
	}
	v := newVetter(kinds)
	objects = slices.DeleteFunc(objects, func(o manifest.Object) bool {
		gvk, errs := typeOf(o.Content)
		isRead := len(errs) == 0 && kinds.ByGVK(gvk) == nil && len(kinds.DecoratorsOf(gvk)) == 0 && v.isForBehaviour(gvk, o)
		if isRead {
			existing = append(existing, o)
		}
		return isRead
	})
	observed := make([]*unstructured.Unstructured, len(existing))
	for i := range existing {
		observed[i] = &unstructured.Unstructured{Object: existing[i].Content}
	}
	errs := []error{kinds.BrokenError()} // the objects of other kinds are rendered
	for i, object := range objects {
		errs = append(errs, o.renderObject(kinds, object, observed, now, i > 0))
	}
	return errors.Join(errs...)
}

// read reads the objects in files. It fails if any file cannot be read.
func (o renderOptions) read(files []string) ([]manifest.Object, error) {
	var objects []manifest.Object
	var errs []error
	for _, name := range files {
		readManifests(name, false, o.standardInput, func(f manifestFile) {
			if f.err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", f.name, f.err))
				return
			}
			read, problems := manifest.Read(f.name, f.text)
			for _, problem := range problems {
				errs = append(errs, problem)
			}
			objects = append(objects, read...)
		})
	}
	return objects, errors.Join(errs...)
}

func (o renderOptions) renderObject(kinds *load.Kinds, object manifest.Object, observed []*unstructured.Unstructured, now time.Time, further bool) error {
	v := newVetter(kinds)
	gvk, errs := typeOf(object.Content)
	if len(errs) > 0 {
		return errors.New(fieldFindings(object, errs)[0].String())
	}
	k, decorators := kinds.ByGVK(gvk), kinds.DecoratorsOf(gvk)
	if k == nil && len(decorators) == 0 {
		return errors.New(unknownKind(object, gvk, kinds.WhyUnknown(gvk)).String())
	}
	u := &unstructured.Unstructured{Object: kind.WithName(object.Content)}
	if k != nil && !k.Versions.IsStored(u.Object) {
		if u.Object, errs = k.AsStored(u.Object); len(errs) > 0 {
			return fmt.Errorf("%s %s: %w", gvk.Kind, u.GetName(), errs.ToAggregate())
		}
	}
	if k != nil {
		err := o.renderBy(k, v, u, observed, now, further)
		if errs := k.Check(k.NewBudget(), u.Object).Errors; err != nil && len(errs) > 0 {
			err = fmt.Errorf("%s %s would be stalled: %w", u.GetKind(), u.GetName(), object.Explain(errs.ToAggregate()))
		}
		if err != nil {
			return err
		}
	}
	for i, decorator := range decorators {
		if err := o.renderBy(decorator, v, u, observed, now, further || k != nil || i > 0); err != nil {
			return err
		}
	}
	return nil
}

// renderBy renders an object by its kind, or by a decorator.
func (o renderOptions) renderBy(k *kind.Kind, v *vetter, u *unstructured.Unstructured, observed []*unstructured.Unstructured, now time.Time, further bool) error {
	rendering, err := simulate.Render(k, u, observed, now)
	if err != nil {
		return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
	}
	of := rendered{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), Rendering: rendering}
	if k.Target != nil {
		of.Decorator = k.Title()
	}
	text, err := json.MarshalIndent(of, "", "  ")
	if err == nil && o.output == "yaml" {
		text, err = yaml.JSONToYAML(text)
		if further {
			text = append([]byte("---\n"), text...)
		}
	} else {
		text = append(text, '\n')
	}
	if err != nil {
		return err
	}
	if _, err = o.standardOutput.Write(text); err != nil {
		return err
	}
	if stalled := v.stalledAs(rendering); stalled != "" {
		return fmt.Errorf("%s %s would be stalled: %s", u.GetKind(), u.GetName(), stalled)
	}
	return nil
}
