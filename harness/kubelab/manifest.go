package kubelab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Objects reads the objects of a manifest.
func Objects(path string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("manifest %s, object %d: %w", path, len(objects)+1, err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// Apply makes the server apply an object, as kubectl apply --server-side does.
// An unknown field is an error. With dry it only reports whether the server
// would accept the object.
func (c *Cluster) Apply(ctx context.Context, o *unstructured.Unstructured, dry bool) error {
	what := fmt.Sprintf("apply %s %s", o.GetKind(), o.GetName())
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Client.Discovery()))
	kind := o.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	body, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	force := true
	options := metav1.PatchOptions{FieldManager: "lab", Force: &force, FieldValidation: metav1.FieldValidationStrict}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	if _, err := client.Resource(mapping.Resource).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(),
		types.ApplyPatchType, body, options); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
