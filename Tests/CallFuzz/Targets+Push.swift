internal import CallClient
internal import CallCore
internal import CallNodeKit
internal import CallPush
internal import CallWire

extension FuzzTarget {
  /// A subscription that a browser gave an app, and that the app gave us.
  static let subscription = FuzzTarget("subscription") { bytes in
    if let subscription = WebPushSubscription(json: bytes.text) {
      let again = WebPushSubscription(json: subscription.json)
      try promise(again == subscription, "\(subscription.json) became \(again?.json ?? "nothing")")
    }
    if let subscription = PushSubscription(bytes.text) {
      let again = PushEndpoint(subscription.endpoint.url)
      try promise(again == subscription.endpoint, "\(subscription.endpoint) is another")
    }
    _ = PushHostRule(bytes.text)
  }

  /// Payloads, as devices read them in every dialect.
  static let pushReaders = FuzzTarget("push-readers", bytesMax: 8192) { bytes in
    let now = Timestamp(microseconds: FuzzKeys.now)
    guard let payload = PayloadValue(json: bytes) else { return }
    for dialect in PushDialect.allCases {
      for version in [nil, 3] {
        guard let news = try? PushReader(dialect, sdkMajorVersion: version).read(payload),
          case .invite(let invite) = news
        else { continue }
        _ = invite.freshness(at: now, serverOffset: .seconds(-7))
        let age = invite.age(at: now) ?? .seconds(0)
        try promise(age >= .seconds(0), "it travelled for \(age)")
      }
    }
  }

  /// Answers of providers: a byte that chooses the status, a line for `Retry-After`, the body.
  static let providerAnswers = FuzzTarget("provider-answers") { bytes in
    var bytes = bytes
    let statuses = [200, 201, 400, 401, 403, 404, 406, 408, 410, 413, 429, 500, 503]
    let status = statuses[bytes.takeChoice() % statuses.count]
    let lines = bytes.split(separator: 10, maxSplits: 1, omittingEmptySubsequences: false)
    let body = lines.count == 2 ? Array(lines[1]) : []
    let headers = ["retry-after": Array(lines[0]).text]
    let reply = ProviderReply.answer(ProviderAnswer(status: status, headers: headers, body: body))
    let now = Timestamp(microseconds: FuzzKeys.now)
    let context = AttemptContext(now: now, deadline: now + .seconds(30))
    for verdict in [FCMVerdict.judge(reply, context), WebPushVerdict.judge(reply, context)] {
      guard case .retry(let pause, _, _) = verdict else { continue }
      try promise(pause > .seconds(0) && pause < .seconds(30), "a pause of \(pause)")
    }
    if case .token(let token, let lifetime) = TokenExchange.judge(reply) {
      try promise(!token.isEmpty && lifetime > .seconds(0), "an access token for \(lifetime)")
    }
    let answer = APNsAnswerBody(body)
    _ = APNsVerdict.of(
      APNsResponse(status: status, reason: answer.reason, timestamp: answer.timestamp), retries: 0,
      timeLeft: .seconds(30), chance: 5)
  }

  /// Files that operators write. The reader reports mistakes in them, and does not die of them.
  static let files = FuzzTarget("files") { bytes in
    _ = try? PushProviders.read(json: bytes, path: "/etc/push.json", origin: nil)
    _ = try? ServiceAccount(json: bytes, file: "account.json", sender: "fcm")
    _ = try? ConfigurationFile.read(json: bytes, path: "/etc/callmesh.json")
  }
}
