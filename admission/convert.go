package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/jsontext"
)

// conversionType is the only type of conversion review that the CRDs ask for.
var conversionType = metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "ConversionReview"}

// conversionRequest is a request to convert objects. Their text shares memory with the body.
type conversionRequest struct {
	uid        types.UID
	apiVersion string
	objects    [][]byte
}

// conversions opens conversion reviews for kinds.
func conversions(kinds *kind.Catalog, log *slog.Logger) opener {
	return func(body []byte) (*exchange, error) {
		request, values, err := decodeConversion(body)
		return &exchange{
			uid: request.uid, values: values,
			answer: func(ctx context.Context) ([]byte, outcome, error) {
				converted, result, err := request.convert(ctx, kinds, log)
				if _, ok := errors.AsType[*failure](err); ok {
					return nil, outcomeFailed, err
				}
				if err != nil {
					// The API server fails as well, with all objects of a list: someone has to know.
					log.Warn("objects cannot be converted", "to", request.apiVersion, "error", err)
					return encodeConversion(request.uid, nil, failureOf(http.StatusUnprocessableEntity, err.Error())),
						outcomeRejected, nil
				}
				return encodeConversion(request.uid, converted, metav1.Status{Status: metav1.StatusSuccess}), result,
					nil
			},
			failed: func(code int, message string) []byte {
				return encodeConversion(request.uid, nil, failureOf(code, message))
			},
		}, err
	}
}

// decodeConversion reads the request of a ConversionReview, and counts the values in the body. With an
// error comes a request with the UID, if that could be read.
func decodeConversion(body []byte) (request *conversionRequest, values int, err error) {
	request = &conversionRequest{}
	values, err = decodeRequest(body, conversionType, &request.uid, func(name []byte, value jsontext.Value) error {
		switch string(name) {
		case "uid":
			return decodeText(&request.uid, value)
		case "desiredAPIVersion":
			return decodeText(&request.apiVersion, value)
		case "objects":
			if value.IsSet() && !value.Is('[') {
				return errors.New(": must be a list")
			}
			if value.IsSet() {
				for _, object := range value.Items {
					request.objects = append(request.objects, object.Raw())
				}
			}
		}
		return nil
	})
	return request, values, err
}

// convert converts all objects, or returns an error that names the first of which it does not know the kind or
// the version. What objects lose is logged: one of them must not have the list of all fail.
func (r *conversionRequest) convert(
	ctx context.Context, kinds *kind.Catalog, log *slog.Logger,
) ([]runtime.RawExtension, outcome, error) {
	converted, result := make([]runtime.RawExtension, len(r.objects)), outcomeConverted
	for i, raw := range r.objects {
		if err := ctx.Err(); err != nil {
			return nil, "", failuref(http.StatusServiceUnavailable, "%d of %d objects were converted: %v", i,
				len(r.objects), err)
		}
		object, err := decodeObject(fmt.Sprintf("request.objects[%d]", i), raw)
		if err != nil {
			return nil, "", err
		}
		text, lost, err := r.convertOne(object, kinds)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", nameOf(object), err)
		}
		if len(lost) > 0 {
			result = outcomeIncomplete
			log.Warn("an object is converted without a part", "object", nameOf(object),
				"error", fmt.Errorf("%s cannot hold %s", r.apiVersion, kind.FieldsOf(lost)))
		}
		converted[i].Raw = text
	}
	return converted, result, nil
}

func (r *conversionRequest) convertOne(object map[string]any, kinds *kind.Catalog) ([]byte, field.ErrorList, error) {
	apiVersion, _ := object["apiVersion"].(string)
	of, _ := object["kind"].(string)
	gvk := schema.FromAPIVersionAndKind(apiVersion, of)
	k := kinds.ByGVK(gvk)
	if k == nil {
		return nil, nil, fmt.Errorf("%s is not a kind that this server knows", kind.TypeName(gvk))
	}
	result, lost, err := k.Versions.Convert(k.NewBudget(), object, r.apiVersion)
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(result)
	return text, lost, err
}

// nameOf returns how messages call an object: Kind namespace/name. The API server also converts new objects
// whose name it still has to generate.
func nameOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if name == "" {
		name, _ = metadata["generateName"].(string)
	}
	if namespace, ok := metadata["namespace"].(string); ok && namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%v %s", object["kind"], name)
}

// encodeConversion returns a ConversionReview with the answer to the request with that UID.
func encodeConversion(uid types.UID, converted []runtime.RawExtension, result metav1.Status) []byte {
	if converted == nil {
		converted = []runtime.RawExtension{}
	}
	body, err := json.Marshal(apiextensionsv1.ConversionReview{
		TypeMeta: conversionType,
		Response: &apiextensionsv1.ConversionResponse{UID: uid, ConvertedObjects: converted, Result: result},
	})
	if err != nil {
		panic(err) // the objects are valid JSON
	}
	return body
}
