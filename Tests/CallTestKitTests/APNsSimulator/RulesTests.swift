import CallCore
import CallTestKit
import CallWire
import Testing

/// A server's rules and one connection to it, without either.
private struct Bench {
  var rules = APNsRules()
  var knowledge: APNsRules.Knowledge
  var identity = ConnectionIdentity()

  init(_ keys: [APNsProviderKey] = [sampleKey]) {
    var teams = APNsTeams()
    for key in keys { teams.add(key, bundles: [bundle]) }
    knowledge = .init(teams: teams, book: APNsTokenBook(strangers: .accept))
  }

  mutating func judge(_ request: APNsRequest, at now: Timestamp = noon) -> APNsRules.Verdict {
    rules.judge(request, connection: 1, identity: &identity, knowledge: &knowledge, now: now)
  }

  mutating func reason(_ request: APNsRequest, at now: Timestamp = noon) -> APNsReason? {
    judge(request, at: now).response.reason
  }
}

private func reason(_ request: APNsRequest) -> APNsReason? {
  var bench = Bench()
  return bench.reason(request)
}

private func violations(_ request: APNsRequest) -> [APNsViolation] {
  var bench = Bench()
  return bench.judge(request).violations
}

/// Expects this reason, nil for none, of a request with each of these values of a field; nil: without the field.
private func expect(
  _ wanted: APNsReason?, _ field: String, _ values: String?..., in request: APNsRequest = .sample(),
  sourceLocation: SourceLocation = #_sourceLocation
) {
  for value in values {
    #expect(
      reason(request.with(field, value)) == wanted, "\(value ?? "none")",
      sourceLocation: sourceLocation)
  }
}

private let alert = APNsRequest.sample().with("apns-push-type", "alert").with("apns-topic", bundle)

struct RulesTests {
  @Test func aGoodPushIsTakenAsItIs() {
    var bench = Bench()
    let verdict = bench.judge(.sample())
    #expect(verdict.response == .accepted)
    #expect(verdict.violations == [])
    #expect(
      verdict.push
        == APNsPush(
          id: sampleID, token: sampleToken, type: .voip, topic: topic, bundle: bundle,
          payload: Array(#"{"aps":{}}"#.utf8), expiration: 0, at: noon, connection: 1))
  }

  @Test("R7: path and authorization in the dynamic table are counted, others may be there")
  func indexing() {
    var request = APNsRequest.sample()
    for place in request.fields.indices {
      request.fields[place].indexed = request.fields[place].name != "authorization"
    }
    #expect(violations(request) == [.indexedPath])
    #expect(reason(request) == nil)
    for place in request.fields.indices {
      request.fields[place].indexed = request.fields[place].name == "authorization"
    }
    #expect(violations(request) == [.indexedAuthorization])
  }

  @Test("R9: method and path") func destination() {
    expect(.methodNotAllowed, ":method", "GET")
    expect(
      .badPath, ":path", "/3/devices/\(sampleToken)", "/2/device/\(sampleToken)",
      "/3/device/\(sampleToken)/", "/3/device/\(sampleToken)?x", "/")
    expect(.missingDeviceToken, ":path", "/3/device/", "/3/device")
    #expect(violations(.sample().with(":method", "GET")) == [.badMethod])
  }

  @Test("R10: no header field twice, known or not") func duplicates() {
    for name in ["apns-topic", "apns-id", "authorization", "x-anything"] {
      var request = APNsRequest.sample().with("x-anything", "1")
      let value = request.fields.first { $0.name == name }?.value ?? ""
      request.fields.append(.init(name, value))
      #expect(reason(request) == .duplicateHeaders, "\(name)")
    }
    #expect(reason(.sample().with("x-anything", "1")) == nil)
  }

  @Test("R11: apns-id is a UUID in lower case; one that is not is not echoed") func messageID() {
    for id in [
      sampleID.uppercased(), String(sampleID.dropLast()), sampleID + "0", "",
      sampleID.replacing("-", with: "0"), "{\(sampleID)}", sampleID.replacing("0", with: "g"),
    ] {
      var bench = Bench()
      let verdict = bench.judge(.sample(id: id))
      #expect(verdict.response.reason == .badMessageID, "\(id)")
      #expect(verdict.id == nil)
    }
    var bench = Bench()
    #expect(bench.judge(.sample(id: nil)).response == .accepted)
    #expect(bench.judge(.sample().with("apns-topic", nil)).id == sampleID)
  }

  @Test("R16: the topic is a bundle of the team, with the suffix of the push type") func topics() {
    expect(.missingTopic, "apns-topic", nil, "")
    expect(.badTopic, "apns-topic", bundle, "\(bundle).complication")
    expect(.topicDisallowed, "apns-topic", "com.other.voip")
    expect(.invalidPushType, "apns-topic", topic, in: alert)
    expect(nil, "apns-topic", bundle, in: alert)
    expect(.topicDisallowed, "apns-topic", "com.other", "com.other.voip", in: alert)
    let talk = APNsRequest.sample().with("apns-push-type", "pushtotalk")
    expect(nil, "apns-topic", "\(bundle).voip-ptt", in: talk)
    for type in APNsPushType.allCases {
      let request = APNsRequest.sample().with("apns-push-type", type.rawValue)
        .with("apns-topic", bundle + type.topicSuffix).with("apns-priority", "5")
      #expect(reason(request) == nil, "\(type)")
    }
    #expect(APNsPushType.allCases.count == 11)
    // A bundle's own id may end like a suffix.
    var bench = Bench()
    bench.knowledge.teams.add(sampleKey, bundles: ["com.example.voip"])
    #expect(bench.reason(alert.with("apns-topic", "com.example.voip")) == nil)
  }

  @Test("R17: the push type is there and one of Apple's") func pushTypes() {
    expect(.invalidPushType, "apns-push-type", nil, "VoIP", "call")
  }

  @Test("R18: priority 1, 5 or 10; background never 10; voip 10, or it is noted")
  func priorities() {
    expect(.badPriority, "apns-priority", "0", "2", "11", "", "10 ", "05")
    expect(nil, "apns-priority", nil, "1", "5")
    #expect(violations(.sample().with("apns-priority", nil)) == [])
    for noted in ["1", "5"] {
      #expect(violations(.sample().with("apns-priority", noted)) == [.voipPriority])
    }
    let background = alert.with("apns-push-type", "background")
    expect(.badPriority, "apns-priority", "10", nil, in: background)
    expect(nil, "apns-priority", "5", in: background)
  }

  @Test("R19: expiration is digits; of VoIP at most 60 s ahead, or it is noted")
  func expirations() {
    expect(
      .badExpirationDate, "apns-expiration", "", "-1", "+1", "1.5", "soon", " 0",
      "99999999999999999999")
    let now = noon.microseconds / 1_000_000
    for (request, value, noted) in [
      (.sample(), "\(now + 60)", []), (.sample(), "\(now + 61)", [.voipExpiration]),
      (.sample(), nil, [.voipExpiration]), (alert, nil, []), (alert, "\(now + 86400)", []),
    ] as [(APNsRequest, String?, [APNsViolation])] {
      #expect(violations(request.with("apns-expiration", value)) == noted)
    }
    expect(nil, "apns-expiration", nil)
  }

  @Test("R20: a collapse id has 1 to 64 bytes, not characters") func collapseIDs() {
    func text(_ character: String, _ count: Int) -> String {
      String(repeating: character, count: count)
    }
    expect(nil, "apns-collapse-id", "x", text("x", 64), text("ä", 32))
    expect(.badCollapseID, "apns-collapse-id", "", text("x", 65), text("ä", 33))
  }

  @Test("R21: the body is a JSON object of at most 5120 bytes, 4096 if not VoIP") func payloads() {
    func object(_ bytes: Int) -> String {
      #"{"a":""# + String(repeating: "x", count: bytes - 8) + #""}"#
    }
    #expect(reason(.sample().with(body: object(5120))) == nil)
    #expect(reason(.sample().with(body: object(5121))) == .payloadTooLarge)
    #expect(reason(alert.with(body: object(4096))) == nil)
    #expect(reason(alert.with(body: object(4097))) == .payloadTooLarge)
    #expect(reason(.sample().with(body: "")) == .payloadEmpty)
    for wrong in ["[]", "1", "\"x\"", "{", "{}x", "{\"a\":1,}", "null", " "] {
      #expect(reason(.sample().with(body: wrong)) == .payloadEmpty, "\(wrong)")
      #expect(violations(.sample().with(body: wrong)) == [.badPayload])
    }
    #expect(reason(.sample().with(body: " {} \n")) == nil)
    // A body that is too large is known by its length: not all of it is kept.
    var cut = APNsRequest.sample().with(body: object(5121))
    cut.bodyLength = 1_000_000
    #expect(reason(cut) == .payloadTooLarge)
  }

  @Test("R22: a token is an even number of hex digits, 64 at least") func tokens() {
    func token(_ digits: Int) -> String { String(repeating: "a", count: digits) }
    for good in [64, 66, 128, 160, 200] { #expect(reason(.sample(token: token(good))) == nil) }
    for wrong in [token(1), token(62), token(63), token(65), token(202), token(63) + "g"] {
      #expect(reason(.sample(token: wrong)) == .badDeviceToken)
      #expect(violations(.sample(token: wrong)) == [.badToken])
    }
    var bench = Bench()
    #expect(bench.judge(.sample(token: token(64).uppercased())).push?.token == token(64))
  }

  @Test("R23: a token belongs to one environment and one topic") func tokenBook() {
    var bench = Bench()
    bench.knowledge.book = APNsTokenBook()
    #expect(bench.reason(.sample()) == .badDeviceToken)
    #expect(bench.judge(.sample()).violations == [])
    bench.knowledge.book.register(
      sampleToken.uppercased(), topic: topic, environment: .production)
    #expect(bench.reason(.sample()) == nil)
    // Its VoIP token, under the topic of alerts.
    #expect(bench.reason(alert) == .deviceTokenNotForTopic)
    #expect(bench.judge(alert).violations == [.tokenNotForTopic])
    bench.knowledge.book.register(sampleToken, topic: topic, environment: .development)
    #expect(bench.reason(.sample()) == .badDeviceToken)
    bench.knowledge.book.forget(sampleToken)
    #expect(bench.reason(.sample()) == .badDeviceToken)
  }

  @Test(
    "R24: a token that is gone is answered with 410 and since when; registered again it is back")
  func unregistered() {
    var bench = Bench()
    bench.knowledge.book.register(sampleToken, topic: topic, environment: .production)
    let since = Timestamp(microseconds: 1_700_000_000_123_456)
    bench.knowledge.book.drop(sampleToken, at: since)
    let verdict = bench.judge(.sample())
    #expect(verdict.response == APNsResponse(.unregistered, timestamp: since))
    #expect(verdict.response.status == 410)
    #expect(
      String(decoding: verdict.response.body, as: UTF8.self)
        == #"{"reason":"Unregistered","timestamp":1700000000123}"#)
    #expect(verdict.violations == [])
    bench.knowledge.book.drop(sampleToken, at: since, reason: .expiredToken)
    #expect(bench.reason(.sample()) == .expiredToken)
    bench.knowledge.book.register(sampleToken, topic: topic, environment: .production)
    #expect(bench.reason(.sample()) == nil)
  }

  @Test("R33: so many pushes to one token within a second, and no more") func tokenRate() {
    var bench = Bench()
    bench.rules.tokenPushesPerSecond = 2
    let other = String(repeating: "cd", count: 32)
    #expect(bench.reason(.sample()) == nil)
    #expect(bench.reason(.sample()) == nil)
    #expect(bench.reason(.sample()) == .tooManyRequests)
    #expect(bench.reason(.sample(token: other)) == nil)
    let end = Timestamp(microseconds: noon.microseconds + 999_999)
    #expect(bench.reason(.sample(), at: end) == .tooManyRequests)
    #expect(bench.reason(.sample(), at: noon + .seconds(1)) == nil)
  }

  @Test func everyReasonHasAStatusAndABody() {
    for reason in APNsReason.allCases {
      #expect([400, 403, 404, 405, 410, 413, 429, 500, 503].contains(reason.status))
      let body = APNsResponse(reason, timestamp: noon).body
      #expect(strictJSONObject(body)?["reason"] == .text(reason.rawValue))
      #expect((strictJSONObject(body)?["timestamp"] != nil) == (reason.status == 410))
    }
    #expect(APNsResponse.accepted.body == [])
    #expect(APNsReason.allCases.count == 32)
  }
}
