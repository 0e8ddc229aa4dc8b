package inject

import (
	"fmt"

	"github.com/fescue-dev/fescue/internal/jsontext"
)

// maxAnnotations is the total size that the annotations of an object may have, names and values:
// TotalAnnotationSizeLimitB of k8s.io/apimachinery.
const maxAnnotations = 256 << 10

// annotationsFit reports whether the API server accepts the annotations with what is added.
func (s *state) annotationsFit() bool {
	size := len(s.result.text)
	for _, e := range s.edits {
		size += len(e.name) + len(e.text)
	}
	if size <= maxAnnotations || len(s.patch) <= len("[") {
		return true // small enough, or nothing is added
	}
	pod, err := jsontext.Parse(apply(s.result.text, s.edits))
	if err != nil {
		panic(fmt.Sprintf("a Pod that was parsed before: %v", err)) // cannot happen
	}
	defer pod.Release()
	size = 0
	for name, annotation := range pod.Member("metadata").Member("annotations").Members {
		size += len(name.String()) + len(annotation.String())
	}
	return size <= maxAnnotations
}

// retract drops everything that was to be injected into the Pod with the given text, and reports
// this in its annotation if there is room.
func (s *state) retract(text []byte) error {
	for i, o := range s.result.Outcomes {
		if o.Reason == Injected {
			s.result.Outcomes[i] = Outcome{Object: o.Object, Reason: TooLarge,
				Message: fmt.Sprintf("the annotations of the Pod would exceed %d bytes", maxAnnotations)}
		}
	}
	s.pod.Release()
	s.result.text, s.path, s.patch, s.edits = text, s.path[:0], s.patch[:len("[")], s.edits[:0]
	if err := s.read(); err != nil {
		return err
	}
	if err := s.writeStatus(); err != nil {
		return err
	}
	if !s.annotationsFit() {
		s.patch, s.edits = s.patch[:len("[")], s.edits[:0]
	}
	return nil
}
