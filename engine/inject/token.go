package inject

import "strings"

const (
	// tokenPath is where the API server's ServiceAccount admission mounts a token into
	// each container that has nothing there, and tokenVolume how the volume that it adds
	// is called at the beginning (plugin/pkg/admission/serviceaccount in Kubernetes).
	tokenPath   = "/var/run/secrets/kubernetes.io/serviceaccount"
	tokenVolume = "kube-api-access-"
)

// tokenMount is the mount of the Pod's token, as its containers have it when they come to
// a webhook; nil if they have none. Our containers get the same. The API server would add
// it, and then ask all webhooks again, since the Pod has changed: that is most of what an
// injection costs whoever creates a Pod.
func tokenMount(pod value) []byte {
	for _, container := range pod.member("spec").member("containers").items {
		for _, mount := range container.member("volumeMounts").items {
			if mount.member("mountPath").equals(tokenPath) && strings.HasPrefix(mount.member("name").string(), tokenVolume) {
				return mount.raw()
			}
		}
	}
	return nil
}

// text is an item of a list as it is added.
func (m *merger) text(item value, s *shape) []byte {
	if !s.containers || m.token == nil {
		return item.raw()
	}
	return m.appendContainer(nil, item)
}

// wholeList is a list whose items are all added.
func (m *merger) wholeList(list value, s *shape) []byte {
	if !s.containers || m.token == nil {
		return list.raw()
	}
	text := make([]byte, 0, len(list.raw())+len(m.token)+len(`,"volumeMounts":[]`))
	text = append(text, '[')
	for i, item := range list.items {
		if i > 0 {
			text = append(text, ',')
		}
		text = m.appendContainer(text, item)
	}
	return append(text, ']')
}

// appendContainer appends a container with the mount of the token.
func (m *merger) appendContainer(to []byte, container value) []byte {
	mounts := container.member("volumeMounts")
	hasOwn := mounts.document != nil && !mounts.is('[') // null, or nothing that has items
	for _, mount := range mounts.items {
		hasOwn = hasOwn || mount.member("mountPath").equals(tokenPath)
	}
	text := container.raw()
	if hasOwn || !container.is('{') {
		return append(to, text...)
	}
	inside := container
	if mounts.is('[') {
		inside = mounts
	}
	end := inside.end() - 1 - container.start()
	to = append(to, text[:end]...)
	if !inside.empty() {
		to = append(to, ',')
	}
	if mounts.is('[') {
		to = append(to, m.token...)
	} else {
		to = append(to, `"volumeMounts":[`...)
		to = append(to, m.token...)
		to = append(to, ']')
	}
	return append(to, text[end:]...)
}
