import CallAuth
import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Foundation
import NIOCore
import Testing

private let call = CallID(high: 1, low: 2)
private let ann = UserKey(app: "demo", user: "ann")

/// An edge with real sockets, a bus in memory and shards that follow a script.
@Suite struct EdgeSessionTests {
  @Test(arguments: DeviceCodec.allCases)
  func deviceAttachesAndIsAnswered(codec: DeviceCodec) async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      client.codec = codec
      let info = try await client.attach(token: try await edge.token("ann"), device: "phone")
      #expect(info.user == "ann" && info.device == "phone" && info.pingSeconds == 25)
      client.say(
        2,
        .place(
          CallAddress(callee: "bob", call: call), PlaceRequest(call: call, description: "sdp")))
      #expect(try await client.reply() == (2, .done))
      let place = try await edge.shards.next {
        if case .place = $0.body { true } else { false }
      }
      #expect(place.user == ann && place.callee.user == "bob" && place.device == "phone")
      #expect(edge.metric("callmesh_edge_sessions") == 1)
    }
  }

  @Test func deliveriesReachTheirSessions() async throws {
    try await EdgeFixture.run { edge in
      let phones = [
        try await edge.device("ann", "phone"), try await edge.device("bob", "phone"),
        try await edge.device("eve", "phone"),
      ]
      let items = phones.enumerated().map { index, phone in
        EdgeItem(
          session: phone.session,
          body: .delivery(
            Delivery(
              call: call, callee: "ann", version: UInt64(index + 1),
              at: Timestamp(microseconds: 1_000_000),
              event: .stop(Stop(reason: .cancelled)))))
      }
      let unknown = EdgeItem(session: 1 << 40, body: items[0].body)
      edge.shards.say([unknown] + items, to: edge.node.incarnation)
      for (index, phone) in phones.enumerated() {
        guard case .delivery(let delivery) = try await phone.client.message() else {
          throw TestFailure("no delivery")
        }
        #expect(delivery.version == UInt64(index + 1))
      }
      #expect(edge.metric("callmesh_edge_deliveries_unknown_total") == 1)
      #expect(edge.metric("callmesh_edge_deliveries_total") == 3)
    }
  }

  /// The name of a session that its device got is the one in the log.
  @Test func theLogNamesSessionsAsTheirDevicesDo() async throws {
    let log = Inbox<String>(capacity: 1000)
    let keep: @Sendable (String) -> Void = { _ = log.offer($0) }
    try await EdgeFixture.run(log: keep) { edge in
      let client = try await edge.client()
      let info = try await client.attach(token: try await edge.token("ann"), device: "phone")
      #expect(info.session.hasPrefix(String(edge.node.incarnation, radix: 16) + "-"))
      var lines: [String] = []
      while !lines.contains(where: { $0.contains("session begins") }) {
        let more = await log.next(until: .now + patience)
        guard !more.isEmpty else { throw TestFailure("the session is not in the log") }
        lines += more
      }
      let begins = lines.filter { $0.contains("session begins") }
      #expect(begins.count == 1)
      #expect(begins.first?.contains(" session=\(info.session) ") == true, "\(begins)")
    }
  }

  // MARK: Authentication

  @Test func headerIsCheckedBeforeTheUpgrade() async throws {
    try await EdgeFixture.run { edge in
      let good = try await edge.token("ann", device: "phone", lifetimeSeconds: 60)
      let expired = try edge.keys.mintToken(
        app: "demo", user: "ann", lifetimeSeconds: 60, now: wallSeconds - 61)
      for (token, code) in [("nonsense", 200), ("", 200), (good + "x", 200), (expired, 201)] {
        let client = try await edge.client()
        let response = try await client.upgrade(token: token)
        #expect(response.status == 401 && response.errorCode == code)
        try await client.end()
      }
      let client = try await edge.client()
      let response = try await client.upgrade(token: good)
      #expect(response.status == 101)
      #expect(response.headers["sec-websocket-protocol"] == "callmesh.v1.pb")
      #expect(response.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
      client.say(1, .attach(AttachRequest()))
      guard case .attached(let info) = try await client.reply().reply else {
        throw TestFailure("not attached")
      }
      #expect(info.device == "phone")
    }
  }

  @Test func attachIsRefusedWithoutSayingWhy() async throws {
    try await EdgeFixture.run { edge in
      let expired = try edge.keys.mintToken(
        app: "demo", user: "ann", lifetimeSeconds: 60, now: wallSeconds - 61)
      let phones = try await edge.token("ann", device: "phone")
      let cases: [(AttachRequest, CallError.Code)] = [
        (AttachRequest(token: "a.b.c", device: "phone"), .notAccepted),
        (AttachRequest(device: "phone"), .notAccepted),
        (AttachRequest(token: expired, device: "phone"), .expired),
        (AttachRequest(token: phones, device: "tablet"), .notAccepted),
        (AttachRequest(token: try await edge.token("ann")), .invalidDevice),
      ]
      let client = try await edge.client()
      try await client.upgrade()
      for (index, (request, code)) in cases.enumerated() {
        client.say(UInt64(index + 1), .attach(request))
        #expect(try await client.errorReply() == (UInt64(index + 1), code))
      }
      client.say(9, .attach(AttachRequest(token: phones)))
      guard case (9, .attached) = try await client.reply() else {
        throw TestFailure("not attached")
      }
    }
  }

  @Test func subprotocolMustBeKnown() async throws {
    try await EdgeFixture.run { edge in
      for offered in [nil, "chat", "callmesh.v2.pb"] {
        let client = try await edge.client()
        let response = try await client.upgrade(offered)
        #expect(response.status == 400 && response.errorCode == 108)
        try await client.end()
      }
      let client = try await edge.client()
      let response = try await client.upgrade("chat, callmesh.v1.json , callmesh.v1.pb")
      #expect(response.headers["sec-websocket-protocol"] == "callmesh.v1.json")
    }
  }

  /// Frames that come with the request itself are not lost in the change of protocols.
  @Test func framesSentWithTheUpgradeAreRead() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let frame = clientFrame(9, Array("early".utf8))
      let response = try await client.upgrade(
        extra: String(decoding: frame.map { $0 & 0x7f }, as: UTF8.self))
      #expect(response.status == 101)
      // Its first byte lost its top bit to be text: not final, so a violation. It was read.
      #expect(try await client.frame().closeCode == 1002)
    }
  }

  // MARK: Commands

  @Test func unansweredCommandIsSentAgain() async throws {
    try await EdgeFixture.run {
      $0.resendAfter = .milliseconds(50)
    } _: { edge in
      let (client, _) = try await edge.device("ann", "phone")
      edge.shards.follow { _ in nil }
      client.say(2, .call(CallAddress(call: call), .query))
      let isQuery: (Command) -> Bool = {
        if case .call(_, .query) = $0.body { true } else { false }
      }
      let first = try await edge.shards.next(isQuery)
      edge.shards.follow(FakeShards.agreeing)
      #expect(try await edge.shards.next(isQuery) == first)
      #expect(try await client.reply().id == 2)
      #expect(edge.metric("callmesh_edge_commands_retried_total") >= 1)
    }
  }

  @Test func commandWithoutAnyAnswerEndsInTryAgain() async throws {
    try await EdgeFixture.run {
      $0.resendAfter = .milliseconds(50)
      $0.commandTimeout = .milliseconds(200)
    } _: { edge in
      let (client, _) = try await edge.device("ann", "phone")
      edge.shards.follow { _ in nil }
      client.say(2, .call(CallAddress(call: call), .query))
      #expect(try await client.errorReply() == (2, .tryAgain))
      #expect(edge.metric("callmesh_edge_commands_pending") == 0)
      // The same for an attach: the connection may try again.
      let other = try await edge.client()
      try await other.upgrade()
      let attach = AttachRequest(token: try await edge.token("bob"), device: "phone")
      other.say(1, .attach(attach))
      #expect(try await other.errorReply() == (1, .tryAgain))
      edge.shards.follow(FakeShards.agreeing)
      other.say(2, .attach(attach))
      guard case (2, .attached) = try await other.reply() else {
        throw TestFailure("not attached")
      }
    }
  }

  @Test func sameRequestIDsOfTwoSessions() async throws {
    try await EdgeFixture.run { edge in
      let one = try await edge.device("ann", "phone")
      let two = try await edge.device("ann", "tablet")
      edge.shards.follow { command in
        .error(CallError(command.device == "phone" ? .notParty : .unknownCall))
      }
      one.client.say(2, .call(CallAddress(call: call), .query))
      two.client.say(2, .call(CallAddress(call: call), .query))
      #expect(try await one.client.errorReply() == (2, .notParty))
      #expect(try await two.client.errorReply() == (2, .unknownCall))
    }
  }

  @Test func repeatedCommandIsAnsweredOnceAndAnotherUnderItsIDRefused() async throws {
    try await EdgeFixture.run { edge in
      let (client, session) = try await edge.device("ann", "phone")
      edge.shards.follow { _ in nil }
      client.say(2, .call(CallAddress(call: call), .query))
      client.say(2, .call(CallAddress(call: call), .query))
      client.say(2, .call(CallAddress(call: call), .busy))
      #expect(try await client.errorReply() == (2, .invalidField))
      edge.say(EdgeItem(session: session, body: .reply(request: 2, .done)))
      edge.say(EdgeItem(session: session, body: .reply(request: 2, .done)))
      #expect(try await client.reply() == (2, .done))
      edge.shards.follow(FakeShards.agreeing)
      client.say(3, .call(CallAddress(call: call), .busy))
      #expect(try await client.reply().id == 3)
    }
  }

  @Test func acknowledgementsArriveWithoutReply() async throws {
    try await EdgeFixture.run { edge in
      let (client, _) = try await edge.device("ann", "phone")
      client.say(0, .ack([AckItem(call: CallAddress(call: call), version: 4)]))
      let ack = try await edge.shards.next { if case .ack = $0.body { true } else { false } }
      #expect(ack.body == .ack([Acknowledgement(call: call, version: 4)]))
    }
  }
}
