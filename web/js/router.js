// SPDX-License-Identifier: Apache-2.0
// Pages by the fragment of the address: #/tubes/mail?state=ready. Links work, and so does going
// back; the server needs to know one page only.

/** {parts: ['tubes', 'mail'], query: URLSearchParams} of the address. */
export function here() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return {
    parts: path.split('/').filter(Boolean).map(decoded),
    query: new URLSearchParams(query),
  };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(parts, query) {
  const text = new URLSearchParams(
    Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== '')).toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`;
}

/** Changes the query without a new entry in the history and without a new page. */
export function note(parts, query) {
  history.replaceState(null, '', link(parts, query));
}
