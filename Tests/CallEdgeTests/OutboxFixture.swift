import CallCore
import CallEdge

private let ann = UserKey(app: "demo", user: "ann")

func command(
  session: UInt64 = 1, request: UInt64 = 1, callee: UserKey = ann,
  _ body: Command.Body = .call(CallID(high: 1, low: 1), .query)
) -> Command {
  Command(
    session: SessionRef(edge: 9, number: session), request: request, user: ann, device: "phone",
    callee: callee, body: body)
}

func outbox(_ change: (inout CommandOutbox.Rules) -> Void = { _ in }) -> CommandOutbox {
  var rules = CommandOutbox.Rules(
    shardCount: 64, pendingMax: 100, resendAfter: .seconds(1), timeout: .seconds(5))
  change(&rules)
  return CommandOutbox(rules: rules)
}

extension CommandOutbox {
  mutating func flushed(all: Bool = false) -> [(shard: Int, commands: [Command])] {
    var out: [(shard: Int, commands: [Command])] = []
    flush(all: all) { out.append(($0, $1)) }
    return out
  }

  mutating func late(_ now: Timestamp) -> [Command] {
    var out: [Command] = []
    _ = sweep(now: now, isLive: { _ in true }, giveUp: { out.append($0.command) })
    return out
  }
}
