package vet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/simulate"
	"github.com/fescue-dev/fescue/internal/manifest"
)

// Rendered is what the controller of a kind would do for one object.
type Rendered struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Decorator  string `json:"decorator,omitempty"`
	*simulate.Rendering
}

// Divide returns the objects that can be rendered, and as observed the existing objects together with those that are
// there for the behaviour of a kind.
func (v *Vetter) Divide(
	objects, existing []manifest.Object,
) (rendered []manifest.Object, observed []*unstructured.Unstructured) {
	rendered = slices.DeleteFunc(objects, func(o manifest.Object) bool {
		gvk, errs := TypeOf(o.Content)
		isRead := len(errs) == 0 && v.catalog.ByGVK(gvk) == nil && len(v.catalog.DecoratorsOf(gvk)) == 0 &&
			v.IsForBehaviour(gvk, o)
		if isRead {
			existing = append(existing, o)
		}
		return isRead
	})
	observed = make([]*unstructured.Unstructured, len(existing))
	for i := range existing {
		observed[i] = &unstructured.Unstructured{Object: existing[i].Content}
	}
	return rendered, observed
}

// Render gives write what the controller of an object's kind would do at a time, and each of its decorators. An error
// says why that is not known, or that the object would be stalled.
func (v *Vetter) Render(
	object manifest.Object, observed []*unstructured.Unstructured, now time.Time, write func(Rendered) error,
) error {
	gvk, errs := TypeOf(object.Content)
	if len(errs) > 0 {
		return errors.New(FieldFindings(object, errs)[0].String())
	}
	k, decorators := v.catalog.ByGVK(gvk), v.catalog.DecoratorsOf(gvk)
	if k == nil && len(decorators) == 0 {
		return errors.New(UnknownKind(object, gvk, v.catalog.WhyUnknown(gvk)).String())
	}
	u := &unstructured.Unstructured{Object: kind.WithName(object.Content)}
	if k != nil && !k.Versions.IsStored(u.Object) {
		if u.Object, errs = k.AsStored(u.Object); len(errs) > 0 {
			return fmt.Errorf("%s %s: %w", gvk.Kind, u.GetName(), errs.ToAggregate())
		}
	}
	if k != nil {
		err := v.renderBy(k, u, observed, now, write)
		if errs := k.Check(k.NewBudget(), u.Object).Errors; err != nil && len(errs) > 0 {
			err = fmt.Errorf("%s %s would be stalled: %w", u.GetKind(), u.GetName(), object.Explain(errs.ToAggregate()))
		}
		if err != nil {
			return err
		}
	}
	for _, decorator := range decorators {
		if err := v.renderBy(decorator, u, observed, now, write); err != nil {
			return err
		}
	}
	return nil
}

// renderBy renders an object by its kind, or by a decorator.
func (v *Vetter) renderBy(
	k *kind.Kind, u *unstructured.Unstructured, observed []*unstructured.Unstructured, now time.Time,
	write func(Rendered) error,
) error {
	rendering, err := simulate.Render(k, u, observed, now)
	if err != nil {
		return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
	}
	of := Rendered{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), Rendering: rendering}
	if k.Target != nil {
		of.Decorator = k.Title()
	}
	if err := write(of); err != nil {
		return err
	}
	if stalled := v.StalledAs(rendering); stalled != "" {
		return fmt.Errorf("%s %s would be stalled: %s", u.GetKind(), u.GetName(), stalled)
	}
	return nil
}
