package vet

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/internal/manifest"
)

// File is a file of manifests with its text, or with the error of reading it.
type File struct {
	Name string
	Text []byte
	Err  error
}

// Vetter checks objects and collects findings.
type Vetter struct {
	catalog *load.Kinds
	// Skips reports whether to skip objects that the catalog has no kind for.
	Skips func(kind.Unknown) bool
	// Skipped names the objects that were skipped, as KIND/NAME.
	Skipped []string
	// Report has what was found until now.
	Report Report
}

// New returns a Vetter that has reported the kinds that failed to load.
func New(catalog *load.Kinds) *Vetter {
	v := &Vetter{
		catalog: catalog,
		Skips:   func(kind.Unknown) bool { return false },
		Report:  Report{Errors: []Finding{}, Proofs: catalog.Proofs()}, // an empty list in JSON, not null
	}
	for _, broken := range catalog.Broken() {
		placeless := *broken
		placeless.File = ""
		v.Report.Errors = append(v.Report.Errors, Finding{
			Check: broken.Check, Type: invalidKindType, File: broken.File, Line: broken.Line,
			Message: placeless.Error(),
		})
	}
	return v
}

// Advise collects advice for the authors of kinds.
func (v *Vetter) Advise(kinds []*kind.Kind) {
	var last []Finding // limits matter least
	for _, k := range kinds {
		for _, a := range k.Advice {
			if a.Check == mistake.UncheckedType && len(v.catalog.Broken()) > 0 {
				continue // it may be the type of a kind that did not load
			}
			v.Report.Advice = append(v.Report.Advice, adviceFinding(k.Version, a))
		}
		if a, ok := largest(k); ok {
			v.Report.Advice = append(v.Report.Advice, adviceFinding(k.Version, a))
		}
		for _, version := range k.Versions {
			for _, a := range slices.Concat(version.FixedAdvice(), version.DefaultAdvice()) {
				v.Report.Advice = append(v.Report.Advice, adviceFinding(version, a))
			}
			if a := version.UnboundedAdvice(); a != nil {
				last = append(last, adviceFinding(version, *a))
			}
		}
	}
	v.Report.Advice = append(v.Report.Advice, last...)
}

func adviceFinding(version *kind.Version, a kind.Advice) Finding {
	return Finding{
		File: a.Position.File, Line: a.Position.Line,
		APIVersion: version.GroupVersionKind.GroupVersion().String(), Kind: version.GroupVersionKind.Kind,
		Check: a.Check, Field: a.Field, Type: adviceType, Message: "advice: " + a.Text,
	}
}

// Read reads the objects in a file; findings report what cannot be read.
func Read(f File) (objects []manifest.Object, findings []Finding) {
	if f.Err != nil {
		return nil, []Finding{
			{Check: mistake.UnreadableFile, File: f.Name, Type: unreadableType, Message: f.Err.Error()},
		}
	}
	objects, errs := manifest.Read(f.Name, f.Text)
	for _, err := range errs {
		check := mistake.InvalidManifest
		if err.Type == manifest.TooLarge {
			check = mistake.UnreadableFile
		}
		findings = append(findings,
			Finding{Check: check, Type: string(err.Type), Message: err.Message}.At(err.Position))
	}
	return objects, findings
}

// File checks one file. Its findings are sorted by position.
func (v *Vetter) File(f File) {
	objects, findings := Read(f)
	for i, object := range objects {
		others := slices.Delete(slices.Clone(objects), i, i+1)
		findings = append(findings, v.Object(object, others)...)
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	// Several alternatives of a schema can reject a field with the same message.
	findings = slices.CompactFunc(findings, func(a, b Finding) bool { return a.String() == b.String() })
	v.Report.Errors = append(v.Report.Errors, findings...)
}

// Object checks an object; others are those in the same file.
func (v *Vetter) Object(object manifest.Object, others []manifest.Object) []Finding {
	gvk, errs := TypeOf(object.Content)
	if len(errs) > 0 {
		return FieldFindings(object, errs)
	}
	if gvk == (schema.GroupVersionKind{Version: "v1", Kind: "List"}) { // a readable list was replaced by its items
		return FieldFindings(object, brokenItems(object.Content))
	}
	k := v.catalog.ByGVK(gvk)
	switch {
	case k != nil:
		v.Report.Objects++
		content := kind.WithName(object.Content)
		if problems := k.Problems(content); len(problems) > 0 {
			return problemFindings(object, problems)
		}
		content, errs := k.AsStored(content)
		if len(errs) > 0 {
			return FieldFindings(object, errs)
		}
		if errs := inject.Check(k, stored(content)); len(errs) > 0 {
			return FieldFindings(object, errs)
		}
		var findings []Finding
		if slices.Contains(v.catalog.Added(), k) {
			findings = v.stallFindings(k, object, content, others)
		}
		return append(findings, v.vetDecorated(gvk, object, others)...)
	case len(v.catalog.DecoratorsOf(gvk)) > 0:
		v.Report.Objects++
		content := kind.WithName(object.Content)
		if errs := v.catalog.ValidateObject(content); len(errs) > 0 {
			return FieldFindings(object, errs)
		}
		return v.vetDecorated(gvk, object, others)
	case v.IsForBehaviour(gvk, object):
		return nil
	}
	why := v.catalog.WhyUnknown(gvk)
	if v.Skips(why) {
		v.Report.Skipped++
		about := About(object)
		v.Skipped = append(v.Skipped, about.Kind+"/"+about.Name)
		return nil
	}
	return []Finding{UnknownKind(object, gvk, why)}
}

// CheckedSomething reports it as an error if no object was checked and nothing else is wrong: a misspelled path
// or group would pass for valid manifests.
func (v *Vetter) CheckedSomething() {
	if v.Report.Objects > 0 || len(v.Report.Errors) > 0 {
		return
	}
	v.Report.Errors = append(v.Report.Errors, Finding{
		Check: mistake.NothingChecked,
		Type:  nothingCheckedType,
		Message: "no object was checked: " + v.catalog.WhyUnknown(schema.GroupVersionKind{}).Reason +
			"; --kinds adds kinds",
	})
}

// vetDecorated reports where the decorators of an object would be stalled.
func (v *Vetter) vetDecorated(
	gvk schema.GroupVersionKind, object manifest.Object, others []manifest.Object,
) (findings []Finding) {
	for _, k := range v.catalog.DecoratorsOf(gvk) {
		content := kind.WithName(object.Content)
		if children.Decorates(k, &unstructured.Unstructured{Object: content}) {
			findings = append(findings, v.stallFindings(k, object, content, others)...)
		}
	}
	return findings
}

// stored returns an object with the metadata that the API server would have added, which a
// behaviour may read.
func stored(object map[string]any) map[string]any {
	metadata := map[string]any{
		"namespace": metav1.NamespaceDefault, "uid": "00000000-0000-4000-8000-000000000000", "resourceVersion": "1",
		"generation": int64(1), "creationTimestamp": "2026-01-01T00:00:00Z",
	}
	given, _ := object["metadata"].(map[string]any)
	maps.Copy(metadata, given)
	object = maps.Clone(object)
	object["metadata"] = metadata
	return object
}

// brokenItems returns the error of a List whose items cannot be read.
func brokenItems(content map[string]any) field.ErrorList {
	path := field.NewPath("items")
	if value, ok := content["items"]; ok {
		return field.ErrorList{field.TypeInvalid(path, value, "must be a list")}
	}
	return field.ErrorList{field.Required(path, "must list the objects")}
}

// TypeOf reads the apiVersion and kind of an object.
func TypeOf(content map[string]any) (gvk schema.GroupVersionKind, errs field.ErrorList) {
	read := func(name string) string {
		path := field.NewPath(name)
		text, isString := content[name].(string)
		switch {
		case content[name] == nil || isString && text == "":
			errs = append(errs, field.Required(path, ""))
		case !isString:
			errs = append(errs, field.TypeInvalid(path, content[name], "must be string"))
		}
		return text
	}
	apiVersion, kindName := read("apiVersion"), read("kind")
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		errs = append(errs,
			field.Invalid(field.NewPath("apiVersion"), apiVersion,
				"must be GROUP/VERSION, or VERSION for the core group"))
	}
	return gv.WithKind(kindName), errs
}
