package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/internal/manifest"
	"github.com/fescue-dev/fescue/internal/vet"
)

const injectHelp = `Inject adds sidecars to the Pods in manifests and to the Pod templates of Deployments,
Jobs and so on. It needs no cluster and runs the same code as the webhook. It prints all
objects of the manifests, changed or not, and the items of lists one by one. Comments and
the order of fields are lost.

--watchers takes objects of any kind with inject, and checks them as 'fescue vet' does.
A Pod gets the parts of an object if its annotation names the object (for Watchers
watch.fescue.dev/inject) or if its labels match the object's selector. The object and the
Pod must be in the same namespace: that of the manifest, or else of --namespace.

-o json-patch prints one line with an RFC 6902 patch for each object with Pods, and
-o diff prints the changes. Standard error reports what a Pod did not get, as
FILE:LINE:COLUMN: KIND/NAME: REASON. The exit code is 1 if a manifest cannot be read, an
object of --watchers is invalid, or a Pod does not get what it requests.`

// injectOptions are the flags of fescue inject.
type injectOptions struct {
	files, sources    []string
	kinds             kindOptions
	output, namespace string
	recursive         bool
	standardInput     io.Reader
	standardOutput    io.Writer
	standardError     io.Writer
}

func newInjectCommand() *cobra.Command {
	var o injectOptions
	c := &cobra.Command{
		Use:   "inject -f FILE|DIR|- --watchers FILE|DIR|-",
		Short: "Inject sidecars into the Pods of manifests, without a cluster",
		Long:  injectHelp,
		Example: `  fescue inject -f deployment.yaml --watchers watcher.yaml | kubectl apply -f -
  kubectl get watchers -o yaml | fescue inject -f ./manifests --watchers - -o diff`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.standardInput, o.standardOutput, o.standardError = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
			return o.inject(c.Context())
		},
	}
	c.Flags().StringArrayVarP(&o.files, "filename", "f", nil,
		"file or folder with Pods or Pod templates, or - for standard input (repeatable)")
	c.Flags().StringArrayVar(&o.sources, "watchers", nil,
		"file or folder with objects to inject, or - for standard input (repeatable)")
	c.Flags().StringVarP(&o.namespace, "namespace", "n", "default", "namespace of objects that do not state one")
	c.Flags().StringVarP(&o.output, "output", "o", "yaml", "output format: yaml, json-patch or diff")
	c.Flags().BoolVarP(&o.recursive, "recursive", "R", false, "read subfolders as well")
	o.kinds.addFlags(c)
	return c
}

// injectWriters write the output formats.
var injectWriters = map[string]func(io.Writer, injectedObject) error{
	"yaml": writeInjectedYAML, "json-patch": writeInjectedPatch, "diff": writeInjectedDiff,
}

func (o injectOptions) inject(ctx context.Context) error {
	write := injectWriters[o.output]
	switch {
	case write == nil:
		return fmt.Errorf("--output: invalid value %q: must be yaml, json-patch or diff", o.output)
	case len(o.files) == 0 || len(o.sources) == 0:
		return errors.New(
			"-f and --watchers are required: manifests with Pods, and objects to inject; see 'fescue inject --help'")
	}
	if err := onceFromInput(slices.Concat(o.files, o.sources)); err != nil {
		return err
	}
	kinds, err := o.kinds.load(ctx)
	if err != nil {
		return errors.Join(kinds.BrokenError(), err)
	}
	v := vet.New(kinds)
	v.Skips = func(why kind.Unknown) bool { return why.Elsewhere } // such as a Pod beside what it gets
	candidates := o.readInjections(kinds, v)
	injector := inject.NewInjector("", kinds.All())
	var writeErr error
	for _, arg := range o.files {
		readManifests(arg, o.recursive, o.standardInput, func(f vet.File) {
			for _, object := range readObjects(v, f) {
				injected := o.injectObject(v, object, injector, candidates)
				writeErr = errors.Join(writeErr, write(o.standardOutput, injected))
			}
		})
	}
	if err := errors.Join(writeErr, v.Report.Print(escaped{o.standardError}, "text")); err != nil {
		return err
	}
	if len(v.Report.Errors) > 0 {
		return errFindings
	}
	return nil
}

// readInjections reads and checks the objects to inject. Objects of kinds that do not inject are
// only checked.
func (o injectOptions) readInjections(kinds *load.Kinds, v *vet.Vetter) (candidates []*inject.Injection) {
	for _, arg := range o.sources {
		readManifests(arg, o.recursive, o.standardInput, func(f vet.File) {
			for _, object := range readObjects(v, f) {
				if findings := v.Object(object, nil); len(findings) > 0 {
					v.Report.Errors = append(v.Report.Errors, findings...)
					continue
				}
				u := unstructured.Unstructured{Object: object.Content}
				k := kinds.ByGVK(u.GroupVersionKind())
				if k == nil || !k.Injects() {
					continue
				}
				u.Object, _ = k.AsStored(u.Object) // it was checked
				injection, err := injectionOf(k, u, o.namespace)
				if err != nil {
					v.Report.Errors = append(v.Report.Errors, objectFinding(object, err.Error()))
					continue
				}
				candidates = append(candidates, injection)
			}
		})
	}
	return candidates
}

// readObjects reads the objects in a file, and reports what cannot be read.
func readObjects(v *vet.Vetter, f vet.File) []manifest.Object {
	objects, findings := vet.Read(f)
	v.Report.Errors = append(v.Report.Errors, findings...)
	return objects
}

func injectionOf(k *kind.Kind, u unstructured.Unstructured, namespace string) (*inject.Injection, error) {
	copied := unstructured.Unstructured{Object: runtime.DeepCopyJSON(k.Default(u.Object))}
	copied.SetNamespace(cmp.Or(copied.GetNamespace(), namespace))
	return inject.Of(k.NewBudget(), k, copied.Object)
}

// objectFinding is a finding about an object as a whole.
func objectFinding(object manifest.Object, message string) vet.Finding {
	f := vet.About(object)
	f.Type, f.Message = vet.InjectionType, message
	return f.At(object.Position)
}

// injectedObject is an object before and after.
type injectedObject struct {
	file          string
	before, after map[string]any
	// template is the path of its Pod, if it has one; patch is what was added there.
	template []string
	hasPod   bool
	patch    []byte
}

// injectObject injects into the Pod of an object, and reports what is not injected.
func (o injectOptions) injectObject(
	v *vet.Vetter, object manifest.Object, injector *inject.Injector, candidates []*inject.Injection,
) injectedObject {
	result := injectedObject{file: object.Position.File, before: object.Content, after: object.Content}
	u := unstructured.Unstructured{Object: object.Content}
	if result.template, result.hasPod = inject.TemplateOf(u.GroupVersionKind()); !result.hasPod {
		return result
	}
	fail := func(err error) injectedObject {
		v.Report.Errors = append(v.Report.Errors, objectFinding(object, err.Error()))
		return result
	}
	pod, found, err := unstructured.NestedMap(object.Content, result.template...)
	if err != nil || !found {
		return fail(fmt.Errorf("has no Pod template at %s", strings.Join(result.template, ".")))
	}
	text, err := json.Marshal(pod)
	if err != nil {
		return fail(err)
	}
	target := inject.Target{Text: text, Namespace: cmp.Or(u.GetNamespace(), o.namespace),
		Claims: inject.ClaimsOf(object.Content)}
	injected, err := injector.Inject(context.Background(), target, candidates)
	if err != nil {
		return fail(err)
	}
	for _, warning := range injected.Warnings() {
		v.Report.Errors = append(v.Report.Errors, objectFinding(object, warning))
	}
	if len(injected.Outcomes) == 0 {
		v.Report.Advice = append(v.Report.Advice,
			objectFinding(object,
				"nothing is injected: the Pod has no annotation that requests it, and no selector matches its labels"))
	}
	if injected.Patch == nil {
		return result
	}
	if err := json.Unmarshal(injected.Pod(), &pod); err != nil {
		return fail(err)
	}
	result.patch, result.after = injected.Patch, pod
	if len(result.template) > 0 {
		result.after = runtime.DeepCopyJSON(object.Content)
		if err := unstructured.SetNestedMap(result.after, pod, result.template...); err != nil {
			return fail(err)
		}
	}
	return result
}

func writeInjectedYAML(w io.Writer, o injectedObject) error {
	text, err := yaml.Marshal(o.after)
	if err == nil {
		_, err = fmt.Fprintf(w, "---\n%s", text)
	}
	return err
}

func writeInjectedPatch(w io.Writer, o injectedObject) error {
	if !o.hasPod {
		return nil
	}
	operations := make([]map[string]any, 0)
	if o.patch != nil {
		if err := json.Unmarshal(o.patch, &operations); err != nil {
			return err
		}
	}
	for _, operation := range operations {
		path := append([]string{""}, o.template...)
		operation["path"] = strings.Join(path, "/") + operation["path"].(string)
	}
	text, err := json.Marshal(operations)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", text)
	}
	return err
}

func writeInjectedDiff(w io.Writer, o injectedObject) error {
	before, err := yaml.Marshal(o.before)
	if err != nil {
		return err
	}
	after, err := yaml.Marshal(o.after)
	if err != nil || bytes.Equal(before, after) {
		return err
	}
	u := unstructured.Unstructured{Object: o.before}
	name := fmt.Sprintf("%s %s/%s", o.file, u.GetKind(), cmp.Or(u.GetName(), u.GetGenerateName()))
	return difflib.WriteUnifiedDiff(w, difflib.UnifiedDiff{
		A: slices.Collect(strings.Lines(string(before))), B: slices.Collect(strings.Lines(string(after))),
		FromFile: name, ToFile: name + " injected", Context: 3,
	})
}
