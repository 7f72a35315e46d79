# SPDX-License-Identifier: Apache-2.0
"""azure_fake.py: what Azure does and Azurite does not, as s3_fake.py plays it. Nothing here was recorded from Azure
itself.
"""

from xml.sax.saxutils import escape


def listing(request, names):
    """One page of these names. The marker is the name at which the next page starts; that of Azurite is the last
    name of the page."""
    asked = {name: values[0] for name, values in request.query.items()}
    prefix, marker = asked.get("prefix", ""), asked.get("marker", "")
    names = [name for name in sorted(names) if name.startswith(prefix) and name >= marker]
    page, rest = names[:int(asked["maxresults"])], names[int(asked["maxresults"]):]
    blobs = "".join(f"<Blob><Name>{escape(name)}</Name><Properties><Etag>0x1</Etag><Content-Length>1</Content-Length>"
                    "<Last-Modified>Fri, 06 Feb 2026 10:00:00 GMT</Last-Modified></Properties></Blob>"
                    for name in page)
    return ('<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>' + blobs +
            f"</Blobs><NextMarker>{escape(rest[0]) if rest else ''}</NextMarker></EnumerationResults>")
