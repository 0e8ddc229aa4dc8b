package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/engine/children"
)

// Template identifies the template that a step writes; it is empty for a deletion.
func (s Step) Template() string {
	if s.Wanted == nil {
		return ""
	}
	return children.TemplateHash(s.Wanted)
}

// Acts describes what steps do that the behaviour itself causes, one text for each verb and child,
// like created pods "a-pod". Corrections of what others have changed are left out, and so are
// unmanaged objects.
func Acts(steps []Step) []string {
	names := make(map[string][]string)
	var acts []string
	for _, s := range steps {
		verb := map[Verb]string{Create: "created", Delete: "deleted", Apply: "changed"}[s.Verb]
		if verb == "" || s.Stray || s.Verb == Apply && children.HasTemplateOf(s.Live, s.Wanted) {
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
func (s Step) Differences(live *unstructured.Unstructured) [][]string {
	if s.Wanted == nil {
		return nil
	}
	if s.Verb == Apply {
		template := s.Wanted.DeepCopy()
		template.SetOwnerReferences(nil)
		return children.Differences(live.Object, template.Object, nil)
	}
	return children.LostMarks(live, s.Wanted)
}
