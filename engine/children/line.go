package children

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
)

// maxAbove is how many objects of its own type an object may have above it: its owner, the owner of that, and so on.
// Trees of one kind are not that deep: a chain that is deeper has no end.
const maxAbove = 10

// LeadsBack reports whether children of a type can have children of the same type in turn, by the kinds and decorators
// that run.
func LeadsBack(kinds []*kind.Kind, child schema.GroupKind) bool {
	reached := make(map[schema.GroupKind]bool)
	for todo := []schema.GroupKind{child}; len(todo) > 0; todo = todo[1:] {
		for _, k := range kinds {
			if k.GroupVersionKind.GroupKind() != todo[0] {
				continue
			}
			for _, owned := range k.Owns {
				switch to := owned.GroupKind(); {
				case to == child:
					return true
				case !reached[to]:
					reached[to] = true
					todo = append(todo, to)
				}
			}
		}
	}
	return false
}

// Parent is the object that a child was created for.
type Parent struct {
	Type schema.GroupVersionKind
	Name types.NamespacedName
	UID  types.UID
	// controls means that the child has a controller reference to it, so that the garbage collector deletes the child
	// when it is gone.
	controls bool
}

// parentOf returns the object that another was created for by one of the kinds: the one that its controller reference
// names or, without any, its label. The annotation of a child elsewhere says only where to look for the UID of the
// label.
func parentOf(child *unstructured.Unstructured, kinds []*kind.Kind) (Parent, bool) {
	holder := metav1.GetControllerOfNoCopy(child)
	for _, k := range kinds {
		if holder != nil {
			if schema.FromAPIVersionAndKind(holder.APIVersion,
				holder.Kind).GroupKind() == k.GroupVersionKind.GroupKind() {
				return Parent{k.GroupVersionKind, OwnerAt(k, child, holder.Name), holder.UID, true}, true
			}
			continue
		}
		if owner, found := strings.CutPrefix(Annotation(child, AnnotationOwner), OwnerPrefix(k)); found &&
			hasOwnLabel(child) {
			return Parent{k.GroupVersionKind, OwnerAt(k, child, owner), types.UID(Label(child, LabelOwnerUID)), false},
				true
		}
	}
	return Parent{}, false
}

// Line is an object and what leads to it: the object that it was created for, the one that this was created for, and so
// on, up to Root, which none of the kinds that run has created.
type Line struct {
	Root *unstructured.Unstructured
	// IsBroken means that an owner is gone, so that the garbage collector is about to delete the object.
	IsBroken bool

	// isKept means that the root outlived the object that it was created for.
	isKept bool
	types  map[schema.GroupKind]int // how many of each type there are
	above  schema.GroupKind         // the type of which there are too many, if any
}

// Trace follows what leads to an object. find returns an object of that name, or nil if it is gone.
func Trace(
	object *unstructured.Unstructured, kinds []*kind.Kind, find func(Parent) (*unstructured.Unstructured, error),
) (*Line, error) {
	l := &Line{types: make(map[schema.GroupKind]int)}
	for {
		gk := object.GroupVersionKind().GroupKind()
		l.Root = object
		if l.types[gk]++; l.types[gk] > maxAbove {
			l.above = gk
			return l, nil
		}
		parent, found := parentOf(object, kinds)
		if !found {
			return l, nil
		}
		next, err := find(parent)
		switch {
		case apierrors.IsForbidden(err): // this operator did not create it
			return l, nil
		case err != nil:
			return nil, err
		case next == nil || next.GetUID() != parent.UID:
			l.IsBroken, l.isKept = parent.controls, !parent.controls && parent.UID != ""
			return l, nil
		}
		object = next
	}
}

// Repeats reports whether the line has an object of the type of a child.
func (l *Line) Repeats(child schema.GroupKind) bool { return l.types[child] > 0 }

// EndlessError is the reason why a child that leads back to its own type is not created.
type EndlessError string

func (e EndlessError) Error() string { return string(e) }

// Check returns why no child may be added to the line whose type it has already; nil is nothing. Where a root outlived
// its owner, what led to it cannot be counted.
func (l *Line) Check() error {
	if l.isKept {
		return EndlessError(
			fmt.Sprintf(
				"it is not created: it leads back to the type of an object that outlived its owner, %s: to let that begin anew, remove its label %s",
				l.root(), LabelOwnerUID))
	}
	if l.above.Kind == "" {
		return nil
	}
	return EndlessError(
		fmt.Sprintf(
			"it is not created: %d objects of type %s lead to it, beginning with %s: the children of kinds and decorators lead back without end",
			l.types[l.above], l.above, l.root()))
}

// TooMany is the error of a child that is not created yet, because so many of the line were at once.
func (l *Line) TooMany(most, perMinute int) error {
	return EndlessError(
		fmt.Sprintf(
			"it is not created yet: kinds and decorators whose children lead back to them created %d objects from %s on; now they create %d a minute",
			most, l.root(), perMinute))
}

// root returns the name of the object that the line begins with.
func (l *Line) root() string {
	name := types.NamespacedName{Namespace: l.Root.GetNamespace(), Name: l.Root.GetName()}
	return fmt.Sprintf("%s %q", l.Root.GetKind(), strings.TrimPrefix(name.String(), "/"))
}
