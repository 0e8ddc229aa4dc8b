package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/internal/manifest"
	"github.com/fescue-dev/fescue/internal/vet"
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
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.standardInput, o.standardOutput = c.InOrStdin(), c.OutOrStdout()
			return o.render(c.Context())
		},
	}
	o.kinds.addFlags(c)
	c.Flags().StringArrayVarP(&o.files, "filename", "f", nil,
		"file or folder with the objects, or - for standard input (repeatable)")
	c.Flags().StringArrayVar(&o.observed, "observed", nil,
		"file or folder with existing objects, such as children, or - for standard input (repeatable)")
	c.Flags().StringVar(&o.now, "now", "", "time to render for, in RFC 3339; the current time by default")
	c.Flags().StringVarP(&o.output, "output", "o", "yaml", "output format: yaml or json")
	if err := c.MarkFlagRequired("filename"); err != nil {
		panic(err) // the flag was added above
	}
	return c
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
	if err := onceFromInput(slices.Concat(o.files, o.observed)); err != nil {
		return err
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
	if len(objects) == 0 {
		return fmt.Errorf("%s: no object to render", strings.Join(o.files, ", "))
	}
	v := vet.New(kinds)
	objects, observed := v.Divide(objects, existing)
	errs := []error{kinds.BrokenError()} // the objects of other kinds are rendered
	for i, object := range objects {
		further := i > 0
		errs = append(errs, v.Render(object, observed, now, func(r vet.Rendered) error {
			err := o.print(r, further)
			further = true
			return err
		}))
	}
	return errors.Join(errs...)
}

// read reads the objects in files. It fails if any file cannot be read.
func (o renderOptions) read(files []string) ([]manifest.Object, error) {
	var objects []manifest.Object
	var errs []error
	for _, name := range files {
		readManifests(name, false, o.standardInput, func(f vet.File) {
			if f.Err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", f.Name, f.Err))
				return
			}
			read, problems := manifest.Read(f.Name, f.Text)
			for _, problem := range problems {
				errs = append(errs, problem)
			}
			objects = append(objects, read...)
		})
	}
	return objects, errors.Join(errs...)
}

// print prints what was rendered, after a separator if it is further output.
func (o renderOptions) print(r vet.Rendered, further bool) error {
	text, err := json.MarshalIndent(r, "", "  ")
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
	_, err = o.standardOutput.Write(text)
	return err
}
