package behaviour

// DecoratorSuffix follows the name of a decorator in the name of its definition.
const DecoratorSuffix = "Decorator"

// ControllerSuffix follows the name of a kind in the name of its behaviour.
const ControllerSuffix = "Controller"

// Names in the contract.
const (
	// ObjectName is the object itself.
	ObjectName = "object"
	// ObservedName are the children that exist.
	ObservedName = "observed"
	// InjectName is what Pods get.
	InjectName = "inject"
	// IndexName is the number of a member of an ordered set.
	IndexName = "index"
)
