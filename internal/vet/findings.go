package vet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/internal/manifest"
)

// Types of findings in addition to those of field.ErrorType and manifest.ErrorType.
const (
	unreadableType     = "Unreadable"
	unknownKindType    = "UnknownKind"
	invalidKindType    = "InvalidKind"
	adviceType         = "Advice"
	stalledType        = "Stalled"
	neverReadyType     = "NeverReady"
	nothingCheckedType = "NothingChecked"
)

// InjectionType is the type of what fescue inject finds.
const InjectionType = "Injection"

// Report is the result of vet.
type Report struct {
	Errors []Finding `json:"errors"`
	// Advice is for the author of a kind; it reports no errors.
	Advice []Finding `json:"advice,omitempty"`
	// Objects is the number of checked objects.
	Objects int `json:"objects"`
	// Skipped is the number of objects of unknown kinds that were not checked.
	Skipped int `json:"skipped,omitempty"`
	// Proofs are how far the kinds of --kinds were compared with CUE's evaluator.
	Proofs []load.Proof `json:"proofs,omitempty"`
}

// Finding is one error or advice. Fields that are unknown or do not apply are empty.
type Finding struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`

	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`

	Field  string `json:"field,omitempty"`
	Type   string `json:"type"`
	Value  any    `json:"value,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Check is the check of Fescue that found it; empty for what a schema rejects.
	Check mistake.Check `json:"check,omitempty"`
	// Rule is the violated rule, and Source its position in CUE.
	Rule   string `json:"rule,omitempty"`
	Source string `json:"source,omitempty"`
	// Message is the complete error in words.
	Message string `json:"message"`
}

// At returns the finding at a position.
func (f Finding) At(p manifest.Position) Finding {
	f.File, f.Line, f.Column = p.File, p.Line, p.Column
	return f
}

// String returns the finding as one line.
func (f Finding) String() string {
	var parts []string
	if f.File != "" {
		parts = append(parts, manifest.Position{File: f.File, Line: f.Line, Column: f.Column}.String())
	}
	switch {
	case f.Kind == "", f.Type == unknownKindType: // its message names the kind
	case f.Name == "":
		parts = append(parts, f.Kind)
	default:
		parts = append(parts, f.Kind+"/"+f.Name)
	}
	line := strings.ReplaceAll(strings.Join(append(parts, f.Message), ": "), "\n", "; ")
	if f.Check != "" {
		line += fmt.Sprintf(" [%s]", f.Check)
	}
	return line
}

// Print writes the report as json, or as text: one finding a line.
func (r *Report) Print(w io.Writer, output string) error {
	if output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	for _, f := range slices.Concat(r.Errors, r.Advice) {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return err
		}
	}
	return nil
}

// problemFindings returns the problems of one object, each with the violated rule.
func problemFindings(object manifest.Object, problems []kind.Problem) []Finding {
	var errs field.ErrorList
	for _, p := range problems {
		errs = append(errs, p.Error)
	}
	findings := FieldFindings(object, errs)
	for i, p := range problems {
		if p.Rule != nil {
			findings[i].Rule, findings[i].Source = p.Rule.Text, p.Rule.Position.String()
		}
	}
	return findings
}

// FieldFindings returns the errors of one object, each with its position in the file.
func FieldFindings(object manifest.Object, errs field.ErrorList) []Finding {
	findings := make([]Finding, len(errs))
	for i, err := range errs {
		f := About(object)
		f.Field, f.Type, f.Detail, f.Message = err.Field, string(err.Type), err.Detail, err.Error()
		location := object.Locate(err.Field)
		place := location.Value
		if err.Type == field.ErrorTypeForbidden {
			place = location.Key
		}
		f = f.At(place.Position)
		if surprise := object.Surprise(err); surprise != "" {
			f.Message += "; " + surprise
		}
		if hasValue(err) {
			f.Value = err.BadValue
		}
		findings[i] = f
	}
	return findings
}

// hasValue reports whether a field error is about its value.
func hasValue(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeRequired, field.ErrorTypeForbidden:
		return false
	}
	_, omitted := err.BadValue.(field.OmitValueType)
	return !omitted
}

// About returns a finding that only names its object.
func About(object manifest.Object) Finding {
	u := unstructured.Unstructured{Object: object.Content}
	return Finding{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(),
		Name: cmp.Or(u.GetName(), u.GetGenerateName())}
}

// UnknownKind returns the finding for an object of an unknown kind, placed at the field that is
// wrong.
func UnknownKind(object manifest.Object, gvk schema.GroupVersionKind, why kind.Unknown) Finding {
	reason := why.Reason
	if why.Elsewhere {
		reason += "; --kinds adds kinds"
	}
	place := object.Locate(why.Field).Value
	f := About(object)
	f.Check, f.Type = mistake.UnknownKind, unknownKindType
	f.Message = fmt.Sprintf("unknown kind %q: %s", kind.TypeName(gvk), reason)
	if why.NotLoaded {
		f.Message = "not checked: " + reason
	}
	return f.At(place.Position)
}
