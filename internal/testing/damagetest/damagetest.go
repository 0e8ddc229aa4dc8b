// Package damagetest lists what people do to children, and what remains of it, for the tests that run scenarios in
// memory and on a control plane.
package damagetest

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Damage is what someone does to a child.
type Damage struct {
	Name string
	// Patch is a JSON merge patch; nil deletes the child.
	Patch map[string]any
}

// Of lists what can happen to a child: that it is deleted, edited, orphaned, and that it loses its marks, or gets
// others.
func Of(child *unstructured.Unstructured) []Damage {
	of := func(field string, value any) map[string]any {
		return map[string]any{"metadata": map[string]any{field: value}}
	}
	all := []Damage{
		{"deleted", nil},
		{"edited", edited(child.Object)},
		{"orphaned", of("ownerReferences", nil)},
		{"without labels", of("labels", nil)},
		{"without annotations", of("annotations", nil)},
	}
	for field, entries := range map[string]map[string]string{"labels": child.GetLabels(),
		"annotations": child.GetAnnotations()} {
		for name := range entries {
			if IsMark(name) {
				all = append(all, Damage{"without " + name, of(field, map[string]any{name: nil})},
					Damage{"other " + name, of(field, map[string]any{name: "x"})})
			}
		}
	}
	slices.SortFunc(all, func(a, b Damage) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// edited returns a patch that changes the first value in an object's own fields; it is empty if there is none.
func edited(fields map[string]any) map[string]any {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch name {
		case "metadata", "apiVersion", "kind", "status", "clusterIP": // the last is the cluster's
			continue
		}
		switch value := fields[name].(type) {
		case map[string]any:
			if inner := edited(value); len(inner) > 0 {
				return map[string]any{name: inner}
			}
		case string:
			return map[string]any{name: value + "x"}
		case int64:
			return map[string]any{name: value + 1}
		case bool:
			return map[string]any{name: !value}
		}
	}
	return map[string]any{}
}

// IsMark reports whether a label or an annotation is one by which a child is recognized.
func IsMark(name string) bool {
	return name == "app.kubernetes.io/managed-by" || strings.HasPrefix(name, "fescue.dev/") &&
		name != "fescue.dev/template"
}

// remaining are the differences that remain, as regular expressions for what Remains gets.
var remaining = []struct {
	what, reason string
	left         bool // something may be left when all objects have been deleted
}{
	{what: `(at\S*|indexedjob) Pod/\S+ deleted`, reason: "it is created once: ChildGone, and in a later phase nothing"},
	{
		what:   `(at\S*|indexedjob) Pod/\S+ (other fescue.dev/(created-as|entered)|without (fescue.dev/entered|annotations))`,
		reason: "its phase is over: a record that names something else makes it a copy, and its entry has no meaning any more",
	},
	{
		what:   `cronjob Job/\S+ (deleted|other fescue.dev/created-as)`,
		reason: "the kind wants a Job of the past as long as it sees it; one whose record names something else is a copy",
	},
	{
		what:   `customcluster\S* Pod/\S+ (deleted|other fescue.dev/created-as)`,
		reason: "another member takes its place, and becomes ready later; one whose record names something else is a copy",
	},
	{
		what:   `bluegreen ReplicaSet/\S+ (deleted|edited|without annotations)`,
		reason: "the kind keeps the template of the colour that serves in an annotation of its own, and reads its status",
	},
	{
		what:   `(configmappropagation ConfigMap|rollout Deployment|serviceperpod Service)/\S+ (deleted|edited|other fescue.dev/created-as)`,
		reason: "what its template reads does not exist, so nobody knows how it has to be; one whose record names something else is a copy",
	},
	{what: `(webapp Ingress|webservice Ingress|database StatefulSet)/\S+ deleted`,
		reason: "the status that the scenario gave it is gone"},
	{what: `announcement Service/\S+ deleted`,
		reason: "the scenario gave it a finalizer, so it stays until that is removed"},
	{what: `database Deployment/\S+ deleted`, reason: "its when waits for the database, which the scenario stopped"},
	{
		what:   `archive Job/\S+ deleted while it is deleted`,
		reason: "it is created once: ChildGone, and nobody saved the files, so the Archive stays until someone decides",
		left:   true,
	},
	{
		what:   `(archive|announcement) \S+ .* while it is deleted`,
		reason: "nothing is created any more, and what a child has lost matters only if it would be left",
	},
}

// Remains reports whether a difference that damage to a child makes is one that remains: what is "SCENARIO CHILD
// DAMAGE", or, of an object that is being deleted, "SCENARIO CHILD DAMAGE while it is deleted". With more left, it
// reports whether something may be left when all objects have been deleted.
func Remains(what string, moreLeft bool) bool {
	for _, r := range remaining {
		if regexp.MustCompile("^"+r.what+"$").MatchString(what) && (r.left || !moreLeft) {
			return true
		}
	}
	return false
}
