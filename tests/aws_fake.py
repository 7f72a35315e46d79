#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""aws_fake.py: STS and IAM Identity Center with its OIDC service, as s3_fake.py plays them: with the reply forms of their
references. Nothing here was recorded from AWS itself.
"""

import hashlib
import hmac
import json
import re

REFRESH_TOKENS = ["refresh-1", "refresh-2"]  # each is good for one refresh


def is_signed(request, service):
    """Whether a request to a service of AWS is signed with the secret of its own access key."""
    match = re.fullmatch("AWS4-HMAC-SHA256 Credential=([^/]+)/(\\d{8})/([^/]+)/" + service +
                         "/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})",
                         request.headers.get("authorization", ""))
    if not match:
        return False
    name, day, region, signed, signature = match.groups()
    headers = "".join(f"{header}:{request.headers[header]}\n" for header in signed.split(";"))
    text = "\n".join((request.method, request.path, "", headers, signed,
                      hashlib.sha256(request.body).hexdigest()))
    text = "\n".join(("AWS4-HMAC-SHA256", request.headers["x-amz-date"],
                      f"{day}/{region}/{service}/aws4_request",
                      hashlib.sha256(text.encode()).hexdigest()))
    key = f"AWS4secret-of-{name}".encode()
    for word in (day, region, service, "aws4_request"):
        key = hmac.digest(key, word.encode(), "sha256")
    token = request.headers.get("x-amz-security-token", "")
    return (hmac.digest(key, text.encode(), "sha256").hex() == signature and
            {"host", "x-amz-date"} <= set(signed.split(";")) and token in ("", f"token-of-{name}"))


def assume_role(connection, request, form, skewed):
    """The reply form of AssumeRole, as its reference shows it. The keys are named after the role."""
    if not is_signed(request, "sts"):
        return connection.reply(403, "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code>"
                                     "</Error></ErrorResponse>")
    if skewed:
        return connection.reply(403, "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code>"
                                     "<Message>Signature expired</Message></Error></ErrorResponse>")
    arn, external = form["RoleArn"][0], form.get("ExternalId", [""])[0]
    name = arn.rpartition("/")[2]
    if not form.get("RoleSessionName") or (name == "strict" and external != "from-outside"):
        return connection.reply(403, "<ErrorResponse><Error><Code>AccessDenied</Code></Error>"
                                     "</ErrorResponse>")
    return connection.reply(200, "<AssumeRoleResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'>"
                                 "<AssumeRoleResult><AssumedRoleUser><Arn>x</Arn></AssumedRoleUser>"
                                 f"<Credentials><AccessKeyId>{name}</AccessKeyId>"
                                 f"<SecretAccessKey>secret-of-{name}</SecretAccessKey>"
                                 f"<SessionToken>token-of-{name}</SessionToken>"
                                 "<Expiration>2038-01-01T00:00:00Z</Expiration></Credentials>"
                                 "</AssumeRoleResult></AssumeRoleResponse>")


def federation(connection, request):
    """The reply form of GetRoleCredentials of IAM Identity Center."""
    if request.headers.get("x-amz-sso_bearer_token") not in ("sso-token", "fresh-token"):
        return connection.reply(401, '{"message": "Session token not found or invalid"}')
    if request.query != {"account_id": ["123456789012"], "role_name": ["Reader"]}:
        return connection.reply(403, '{"message": "No access"}')
    return connection.reply(200, '{"roleCredentials": {"accessKeyId": "login", "secretAccessKey": '
                                 '"secret-of-login", "sessionToken": "token-of-login", '
                                 '"expiration": 2145916800000}}')


def token(connection, request):
    """The reply form of CreateToken with a refresh token. A refresh token is good once."""
    asked = json.loads(request.body)
    if request.headers.get("content-type") != "application/json" or \
       asked.get("grantType") != "refresh_token" or asked.get("clientId") != "client" or \
       asked.get("clientSecret") != 'client "secret"':
        return connection.reply(401, '{"error": "invalid_client"}')
    if asked["refreshToken"] == "slow":
        return connection.reply(500, '{"error": "server_error"}')
    if asked["refreshToken"] not in REFRESH_TOKENS:
        return connection.reply(400, '{"error": "invalid_grant", "error_description": "Invalid token"}')
    REFRESH_TOKENS.remove(asked["refreshToken"])
    return connection.reply(200, '{"accessToken": "fresh-token", "expiresIn": 28800, "tokenType": '
                                 '"Bearer", "refreshToken": "refresh-2"}')
