package plan

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Template identifies the template that a step writes; it is empty for a deletion.
func (s Step) Template() string {
	if s.Wanted == nil {
		return ""
	}
	return contentHash(s.Wanted)
}

// Acts describes what steps do that the behaviour itself causes, one text for each verb and child,
// like created pods "a-pod". Corrections of what others have changed are left out, and so are
// unmanaged objects.
func Acts(steps []Step) []string {
	names := make(map[string][]string)
	var acts []string
	for _, s := range steps {
		verb := map[Verb]string{Create: "created", Delete: "deleted", Apply: "changed"}[s.Verb]
		if verb == "" || s.Stray || s.Verb == Apply && sameTemplate(s.Live, s.Wanted) {
			continue
		}
		act := verb + " " + s.Resource.Resource
		if names[act] == nil {
			acts = append(acts, act)
		}
		names[act] = append(names[act], s.Name)
	}
	for i, act := range acts {
		of := names[act]
		acts[i] = fmt.Sprintf("%s %q", act, of[0])
		if len(of) > 1 {
			acts[i] += fmt.Sprintf(" and %d more", len(of)-1)
		}
	}
	return acts
}

// Differences returns the paths of the fields that a step corrects in an object, sorted. A list
// is one field. A deletion corrects none.
func (s Step) Differences(live *unstructured.Unstructured) (paths [][]string) {
	if s.Wanted == nil {
		return nil
	}
	if s.Verb == Apply {
		template := s.Wanted.DeepCopy()
		template.SetOwnerReferences(nil)
		return differences(live.Object, template.Object, nil)
	}
	add := func(is, wanted string, path ...string) {
		if is != wanted {
			paths = append(paths, path)
		}
	}
	for _, name := range OwnAnnotations {
		add(Annotation(live, name), Annotation(s.Wanted, name), "metadata", "annotations", name)
	}
	for _, name := range OwnLabels {
		add(Label(live, name), Label(s.Wanted, name), "metadata", "labels", name)
	}
	if entered, isOnce := entry(s.Wanted, "annotations", AnnotationEntered); isOnce {
		add(Annotation(live, AnnotationEntered), entered, "metadata", "annotations", AnnotationEntered)
	}
	if len(paths) == 0 {
		paths = append(paths, []string{"metadata", "ownerReferences"})
	}
	return paths
}

// differences returns the paths of what a template has and an object does not contain.
func differences(live, template any, path []string) (paths [][]string) {
	fields, ok := template.(map[string]any)
	if !ok || len(fields) == 0 {
		if contains(live, template) {
			return nil
		}
		return [][]string{path}
	}
	has, _ := live.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		paths = append(paths, differences(has[name], fields[name], append(slices.Clone(path), name))...)
	}
	return paths
}
