import CallAuth
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire

/// The cost to a coordinator of knowing who speaks.
enum SpeakerBenchmarks {
  static let now = Timestamp(microseconds: 1_800_000_000_000_000)

  static func run(_ measure: Measure) async throws {
    guard measure.wants("speaker") else { return }
    let (keys, _) = AppKeys.generateDevelopment(app: "demo")
    let tickets = try SessionTicketKeys([[UInt8](repeating: 1, count: 32)])
    let authority = CommandAuthority(
      tokens: TokenAuthority(keys: keys), tickets: TicketKeyring(tickets), pushKeys: PushKeyring())
    let metrics = CoordinatorMetrics(MetricsRegistry())
    let first = try keys.mintToken(
      app: "demo", user: "bob", lifetimeSeconds: 60, now: now.microseconds / 1_000_000)
    let key = try authority.tokens.verify(first, now: now.microseconds / 1_000_000).keyNumber
    var check = CommandAuthenticator(authority, .required, metrics)

    for kid in ["dev-es256", "dev-hs256"] {
      let token = try keys.mintToken(
        kid: kid, app: "demo", user: "bob", lifetimeSeconds: 3600,
        now: now.microseconds / 1_000_000)
      var attach = CoreBenchmarks.command(
        .attach(Attach()), device: "b1", callee: CoreBenchmarks.bob, number: 1)
      attach.credential = .token(token)
      measure("speaker: attach with a token, \(kid)", runs: 1000) { _ in
        var command = attach
        blackHole(check.authenticate(&command, now: now))
      }
    }

    let commands = (0..<1000).map { index in
      let user = UserKey(app: "demo", user: "a user of usual length \(index)")
      var command = CoreBenchmarks.command(
        .call(CodecBenchmarks.id, .alerting), user: user.user, device: "a device's id",
        callee: user,
        number: UInt64(index))
      command.credential = .ticket(tickets.ticket(for: command, expires: .max, issued: 1, key: key))
      return command
    }
    measure("speaker: command, ticket remembered", runs: 100_000) { run in
      var command = commands[run & 127]
      blackHole(check.authenticate(&command, now: now))
    }
    measure("speaker: command, ticket worked out", runs: 20_000) { run in
      let command = commands[run % 1000]
      if case .ticket(let ticket) = command.credential {
        blackHole(
          tickets.accepts(.init(high: ticket.high, low: ticket.low), of: ticket.facts(of: command)))
      }
    }
    let secret = EdgeSecret(high: 1, low: 2)
    let edge = EdgeNumber.of(secret: 1, 2)
    measure("speaker: batch, its edge remembered", runs: 100_000) { _ in
      blackHole(check.isEdge(edge, secret))
    }
    measure("speaker: batch, its edge worked out", runs: 20_000) { run in
      blackHole(EdgeNumber.of(secret: 1, UInt64(run)))
    }
    for shows in [false, true] {
      let some = commands.prefix(20).map { command in
        var command = command
        if !shows { command.credential = .none }
        return command
      }
      let batch = CommandBatch(edge: edge, secret: secret, commands: some)
      let bytes = ClusterCodec.encode(batch)
      let name = shows ? "with tickets" : "without tickets"
      measure("speaker: batch of 20 \(name) (\(bytes.count) B), encode", runs: 10_000) { _ in
        blackHole(ClusterCodec.encode(batch))
      }
      measure("speaker: batch of 20 \(name), decode", runs: 10_000) { _ in
        blackHole(try? ClusterCodec.commandBatch(bytes))
      }
    }
  }
}
