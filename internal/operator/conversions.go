package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/operator/definitions"
)

// conversionManager owns what conversions writes into CRDs.
const conversionManager = "fescue/webhooks"

const (
	// conversionDelay is how long a CRD may have another conversion than it should: an immediate
	// correction would be a race with the other writer.
	conversionDelay = time.Second
	// maxConversionDelay bounds the delay, which doubles with each failure.
	maxConversionDelay = time.Minute
)

// conversions keeps the CRDs of kinds with conversions calling the webhook of this installation, with
// the authority that it uses. Only the leader writes.
type conversions struct {
	client      dynamic.Interface
	webhook     crds.Webhook
	definitions *definitions.Definitions
	log         *slog.Logger
	changed     chan struct{} // a CRD was changed

	mu    sync.Mutex
	kinds []*kind.Kind
	// bundle is what Publish was given; nil leaves that of the CRDs to others.
	bundle    []byte
	published bool
}

func newConversions(
	client dynamic.Interface, webhook crds.Webhook, definitions *definitions.Definitions, log *slog.Logger,
) *conversions {
	return &conversions{client: client, webhook: webhook, definitions: definitions, log: log,
		changed: make(chan struct{}, 1)}
}

// of sets the kinds.
func (c *conversions) of(kinds []*kind.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds = kinds
}

// signal has run look at the CRDs.
func (c *conversions) signal() {
	if c == nil {
		return
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// publish has all CRDs trust an authority, and run keep them so. A CRD that the API server does not let Fescue write is
// left to run: until somebody mends that, the other CRDs and the webhooks need a new certificate as well.
func (c *conversions) publish(ctx context.Context, bundle []byte) error {
	c.mu.Lock()
	c.bundle, c.published = bundle, true
	c.mu.Unlock()
	errs := c.apply(ctx)
	isRejected := func(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }
	if slices.ContainsFunc(errs, isRejected) {
		c.signal()
	}
	return errors.Join(slices.DeleteFunc(errs, isRejected)...)
}

// run corrects CRDs that others have changed, until ctx ends.
func (c *conversions) run(ctx context.Context) {
	delay := conversionDelay
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		if err := errors.Join(c.apply(ctx)...); err == nil {
			delay = conversionDelay
		} else if ctx.Err() == nil {
			delay = min(2*delay, maxConversionDelay)
			c.log.Error("setting the conversion webhook of CRDs failed; retrying", "after", delay, "error", err)
			c.signal()
		}
	}
}

// apply writes to the CRDs that differ from what they should be. Those that do not exist or belong to
// another version of the kind are left out. It returns an error for each CRD that it could not write.
func (c *conversions) apply(ctx context.Context) (errs []error) {
	c.mu.Lock()
	kinds, webhook, published := c.kinds, c.webhook, c.published
	webhook.CABundle = c.bundle
	c.mu.Unlock()
	if !published {
		return nil
	}
	for _, k := range kinds {
		crd := c.definitions.CRD(k)
		if crd == nil || c.definitions.IsOtherVersion(k) {
			continue
		}
		change, err := conversionChange(crd, k, webhook)
		switch {
		case errors.Is(err, errForeign):
			c.log.Warn("conversion of a CRD is left unchanged", "name", k.Name(), "error", err)
			continue
		case err == nil && change == keepConversion:
			continue
		case err == nil:
			err = c.write(ctx, k, change, webhook)
		}
		switch {
		case err == nil:
			c.log.Info("conversion of a CRD is set", "name", k.Name(), "conversion", change)
		case !apierrors.IsNotFound(err):
			errs = append(errs, fmt.Errorf("CRD %s: %w", k.Name(), err))
		}
	}
	return errs
}

// errForeign is the error for a CRD whose objects another installation converts.
var errForeign = errors.New("its objects are converted by another installation, at")

// change is what has to be written into a CRD.
type change string

const (
	keepConversion   change = "unchanged"
	dropConversion   change = "none"
	switchConversion change = "webhook" // at another address than before
	applyConversion  change = "webhook, with its authority"
)

// conversionChange returns what has to be written for a CRD to convert objects as its kind says. The
// error is errForeign if the CRD calls another address that it trusts already: two installations would
// undo each other's work.
func conversionChange(crd *unstructured.Unstructured, k *kind.Kind, webhook crds.Webhook) (change, error) {
	live, _, _ := unstructured.NestedMap(crd.Object, "spec", "conversion")
	current, _, _ := unstructured.NestedMap(live, "webhook", "clientConfig")
	wanted, err := webhook.ClientConfig()
	if err != nil {
		return keepConversion, err
	}
	isOurs, isCalled := sameValue(address(current), address(wanted)), live["strategy"] == "Webhook"
	switch {
	case !k.Versions.Converts() && isOurs && isCalled:
		return dropConversion, nil
	case !k.Versions.Converts():
		return keepConversion, nil
	case isCalled && isOurs && (wanted["caBundle"] == nil || sameValue(current["caBundle"], wanted["caBundle"])):
		return keepConversion, nil
	case isCalled && isOurs:
		return applyConversion, nil
	case isCalled && current["caBundle"] != nil:
		called, _ := json.Marshal(address(current))
		return keepConversion,
			fmt.Errorf(
				"%w %s; to change that, apply the CRD that 'fescue crd' prints with --webhook-url or --webhook-service",
				errForeign, called)
	}
	return switchConversion, nil
}

// write writes a change into the CRD of a kind. At last, all of it is applied, so that it belongs to
// Fescue: a CRD without conversions, applied by another field manager, would otherwise remove the
// strategy and leave the rest, which the API server rejects.
func (c *conversions) write(ctx context.Context, k *kind.Kind, change change, webhook crds.Webhook) error {
	client := c.client.Resource(crds.Resource)
	options := metav1.PatchOptions{FieldManager: conversionManager}
	if change != applyConversion {
		none := map[string]any{"strategy": apiextensionsv1.NoneConverter, "webhook": nil}
		patch := map[string]any{"spec": map[string]any{"conversion": none}}
		if change == switchConversion {
			var err error
			if patch, err = webhook.Patch(); err != nil {
				return err
			}
		}
		text, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		if _, err := client.Patch(ctx, k.Name(), types.MergePatchType, text, options); err != nil ||
			change == dropConversion {
			return err
		}
	}
	applied := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": apiextensionsv1.SchemeGroupVersion.String(),
			"kind": "CustomResourceDefinition", "spec": map[string]any{}},
	}
	applied.SetName(k.Name())
	if err := crds.CallAt(applied, k, webhook); err != nil {
		return err
	}
	_, err := client.Apply(ctx, k.Name(), applied, metav1.ApplyOptions{FieldManager: conversionManager, Force: true})
	return err
}

// address returns where a webhook is called.
func address(client map[string]any) any {
	if url, ok := client["url"]; ok {
		return url
	}
	return client["service"]
}

// sameValue compares parts of two objects by their JSON.
func sameValue(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
