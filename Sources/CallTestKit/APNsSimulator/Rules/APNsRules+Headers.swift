internal import CallCore

extension APNsRules {
  /// R16 to R20: the header fields that say what the push is.
  /// - Returns: a push without id, token, payload and connection.
  func headers(
    _ request: APNsRequest, identity: ConnectionIdentity, _ verdict: inout Verdict, now: Timestamp
  ) throws(Refusal) -> APNsPush {
    guard let type = request.first("apns-push-type").flatMap(APNsPushType.init(rawValue:)) else {
      throw Refusal(.invalidPushType)
    }
    let (topic, bundle) = try topic(request, type, identity)
    let priority = try priority(request, type, &verdict)
    let expiration = try expiration(request, type, &verdict, now: now)
    let collapseID = request.first("apns-collapse-id")
    if let collapseID, !(1...64 ~= collapseID.utf8.count) { throw Refusal(.badCollapseID) }
    return APNsPush(
      id: "", token: "", type: type, topic: topic, bundle: bundle, payload: [],
      expiration: expiration, priority: priority, collapseID: collapseID, at: now, connection: 0)
  }

  /// R16: the bundle is one of those that the connection is bound to, and the suffix fits the type.
  ///
  /// Apple documents no reason for a wrong suffix. Here it is `BadTopic` if the suffix of the type is missing, and
  /// `InvalidPushType` if the topic has the suffix of another type.
  private func topic(
    _ request: APNsRequest, _ type: APNsPushType, _ identity: ConnectionIdentity
  ) throws(Refusal) -> (topic: String, bundle: String) {
    guard let topic = request.first("apns-topic"), !topic.isEmpty else {
      throw Refusal(.missingTopic)
    }
    // The id of a bundle may itself end in `.voip`.
    if type.topicSuffix.isEmpty, identity.allows(bundle: topic) { return (topic, topic) }
    if !type.topicSuffix.isEmpty {
      guard topic.hasSuffix(type.topicSuffix) else { throw Refusal(.badTopic) }
      let bundle = String(topic.dropLast(type.topicSuffix.count))
      guard identity.allows(bundle: bundle) else { throw Refusal(.topicDisallowed) }
      return (topic, bundle)
    }
    for other in APNsPushType.allCases
    where !other.topicSuffix.isEmpty && topic.hasSuffix(other.topicSuffix) {
      if identity.allows(bundle: String(topic.dropLast(other.topicSuffix.count))) {
        throw Refusal(.invalidPushType)
      }
    }
    throw Refusal(.topicDisallowed)
  }

  /// R18: the default is 10, which is not allowed for a background push.
  private func priority(
    _ request: APNsRequest, _ type: APNsPushType, _ verdict: inout Verdict
  ) throws(Refusal) -> Int {
    let text = request.first("apns-priority") ?? "10"
    guard ["1", "5", "10"].contains(text), let priority = Int(text),
      type != .background || priority != 10
    else { throw Refusal(.badPriority) }
    if type == .voip, priority != 10 { verdict.violations.append(.voipPriority) }
    return priority
  }

  /// R19: Apple recommends "0, or only a few seconds" for VoIP. The limit here is 60 s.
  private func expiration(
    _ request: APNsRequest, _ type: APNsPushType, _ verdict: inout Verdict, now: Timestamp
  ) throws(Refusal) -> Int64? {
    guard let text = request.first("apns-expiration") else {
      if type == .voip { verdict.violations.append(.voipExpiration) }
      return nil
    }
    guard !text.isEmpty, text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let time = Int64(text) else {
      throw Refusal(.badExpirationDate)
    }
    if type == .voip, time > now.microseconds / 1_000_000 + 60 {
      verdict.violations.append(.voipExpiration)
    }
    return time
  }
}
