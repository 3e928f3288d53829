package import CallCore

/// Judges one request: whether APNs accepts it, and whether it violates a contract. A pure function of its arguments,
/// so that tests reach each exact boundary.
///
/// Apple does not document the order of checks. Here it is: method, path, repeated header fields, `apns-id`, provider
/// token, push type, topic, priority, expiration, collapse id, payload, device token.
package struct APNsRules: Sendable {
  package var environment = APNsEnvironment.production
  package var leniency: APNsLeniency = []
  package var identityLimits = ConnectionIdentity.Limits()
  /// Pushes to one token within a second; nil: any number.
  package var tokenPushesPerSecond: Int?

  package init() {}

  /// The server's state that all its connections share.
  package struct Knowledge: Sendable {
    package var teams: APNsTeams
    package var book: APNsTokenBook
    package var rate = TokenRate()
    package init(teams: APNsTeams, book: APNsTokenBook) {
      self.teams = teams
      self.book = book
    }
  }

  package struct Verdict: Sendable {
    package var response: APNsResponse
    /// The sender's `apns-id`; nil if it gave none, or none that can be echoed.
    package var id: String?
    /// The device token, in lower case, if there is one in the path.
    package var token: String?
    /// The push, if nothing is wrong with it. Its `id` is empty if one must be minted.
    package var push: APNsPush?
    package var violations: [APNsViolation] = []
  }

  package func judge(
    _ request: APNsRequest, connection: Int, identity: inout ConnectionIdentity,
    knowledge: inout Knowledge, now: Timestamp
  ) -> Verdict {
    var verdict = Verdict(response: .accepted)
    noteIndexing(request, &verdict)
    let id = request.first("apns-id")
    if let id, isCanonicalUUID(id) { verdict.id = id }
    do throws(Refusal) {
      let token = try path(request)
      verdict.token = token
      // R10: no field may be repeated, not even an unknown one.
      guard Set(request.fields.map(\.name)).count == request.fields.count else {
        throw Refusal(.duplicateHeaders)
      }
      if id != nil, verdict.id == nil { throw Refusal(.badMessageID) }
      try identity.admit(
        authorization: request.first("authorization"), teams: &knowledge.teams,
        environment: environment, limits: identityLimits, leniency: leniency, now: now)
      var push = try headers(request, identity: identity, &verdict, now: now)
      push.payload = try payload(request, push.type)
      push.token = token
      push.connection = connection
      push.id = verdict.id ?? ""
      try destination(push, &knowledge, now: now)
      verdict.push = push
    } catch {
      verdict.response = APNsResponse(error.reason, timestamp: error.timestamp)
      if let violation = error.violation { verdict.violations.append(violation) }
    }
    return verdict
  }

  /// R9: method and path; the device token in lower case.
  private func path(_ request: APNsRequest) throws(Refusal) -> String {
    guard request.first(":method") == "POST" else { throw Refusal(.methodNotAllowed) }
    let path = request.first(":path") ?? ""
    let prefix = "/3/device/"
    guard path.hasPrefix(prefix) else {
      throw Refusal(path == "/3/device" ? .missingDeviceToken : .badPath)
    }
    let token = path.dropFirst(prefix.count)
    if token.isEmpty { throw Refusal(.missingDeviceToken) }
    // Neither a query nor another part may follow.
    if token.utf8.contains(UInt8(ascii: "/")) || token.utf8.contains(UInt8(ascii: "?")) {
      throw Refusal(.badPath)
    }
    return token.lowercased()
  }

  /// R21: a JSON object within the type's limit.
  private func payload(_ request: APNsRequest, _ type: APNsPushType) throws(Refusal) -> [UInt8] {
    if request.bodyLength == 0 { throw Refusal(.payloadEmpty) }
    if request.bodyLength > type.payloadBytesMax { throw Refusal(.payloadTooLarge) }
    // There is no reason for "not JSON"; this is the nearest one.
    guard strictJSONObject(request.body) != nil else { throw Refusal(.payloadEmpty) }
    return request.body
  }

  /// R22 to R24, and R33's limit for one token.
  private func destination(
    _ push: APNsPush, _ knowledge: inout Knowledge, now: Timestamp
  ) throws(Refusal) {
    guard APNsTokenBook.isWellFormed(push.token[...]) else {
      throw Refusal(.badDeviceToken, .badToken)
    }
    let answer = knowledge.book.check(push.token, topic: push.topic, environment: environment)
    if let reason = answer.reason {
      // A wrong topic is the sender's error, since the device registered the topic with the token.
      throw Refusal(
        reason, reason == .deviceTokenNotForTopic ? .tokenNotForTopic : nil,
        timestamp: answer.timestamp)
    }
    if let limit = tokenPushesPerSecond,
      knowledge.rate.isExceeded(by: push.token, limit: limit, now: now)
    {
      throw Refusal(.tooManyRequests)
    }
  }

  /// R7: Apple asks to send these two without indexing, since one changes with each push and the other is secret.
  private func noteIndexing(_ request: APNsRequest, _ verdict: inout Verdict) {
    for field in request.fields where field.indexed {
      if field.name == ":path" { verdict.violations.append(.indexedPath) }
      if field.name == "authorization" { verdict.violations.append(.indexedAuthorization) }
    }
  }
}

/// 36 characters, lower case, hyphens in their places (R11).
package func isCanonicalUUID(_ text: String) -> Bool { CallID(text)?.description == text }
