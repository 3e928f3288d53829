internal import CallCore
internal import CallTelemetry
internal import Logging

/// The log of an edge about calls: each command of a device, and each delivery that is written to it. Events that users
/// cause or notice are logged at `debug`, the rest at `trace`; descriptions, candidates and tokens are never logged.
extension Logger {
  func received(_ command: Command) {
    guard logLevel <= .debug else { return }
    let (name, level) = command.body.trail
    guard logLevel <= level else { return }
    for call in command.body.trailCalls {
      log(
        level: level, "\(name) received",
        metadata: .keys([
          .call: "\(call)", .session: "\(command.session)", .app: "\(command.user.app)",
          .user: "\(command.user.user)", .device: "\(command.device)",
          .callee: "\(command.callee.user)",
        ]))
    }
  }

  /// - Parameter sender: the user of the session.
  func written(
    _ delivery: Delivery, to session: SessionRef,
    _ sender: @autoclosure () -> (user: UserKey, device: DeviceID)?
  ) {
    guard logLevel <= .debug else { return }
    let (name, level) = delivery.event.trail
    guard logLevel <= level, let sender = sender() else { return }
    log(
      level: level, "\(name) written",
      metadata: .keys([
        .call: "\(delivery.call)", .session: "\(session)", .app: "\(sender.user.app)",
        .user: "\(sender.user.user)", .device: "\(sender.device)", .callee: "\(delivery.callee)",
      ]))
  }
}

extension Command.Body {
  fileprivate var trail: (name: String, level: Logger.Level) {
    switch self {
    case .place: ("place", .debug)
    case .call(_, let verb):
      switch verb {
      case .answer, .decline, .busy, .cancel, .hangUp, .pull, .transfer, .cancelTransfer:
        (verb.name, .debug)
      default: (verb.name, .trace)
      }
    case .ack: ("acknowledgement", .trace)
    case .callerGone: ("loss of the caller", .trace)
    case .attach: ("attach", .trace)
    case .crossed: ("crossing", .debug)
    case .app(.place): ("place by the app's server", .debug)
    case .app(.end): ("end by the app's server", .debug)
    case .app(.setGroup): ("group by the app's server", .debug)
    case .app(.setName): ("name by the app's server", .debug)
    case .sessionClosed, .register, .unregister, .pushReport, .tokenTaken, .merge, .replaced,
      .visit, .talking, .calls, .rules, .app, .history:
      ("command", .trace)
    }
  }

  /// The calls under whose ids the command is logged.
  fileprivate var trailCalls: [CallID] {
    switch self {
    case .ack(let items): items.map(\.call)
    case .callerGone(let calls): calls
    case .attach(let attach): attach.forCall.map { [$0] } ?? []
    case .crossed(let crossed): [crossed.call, crossed.survivor]
    case .talking(let talking): talking.calls
    case .sessionClosed, .register, .unregister, .place, .call, .pushReport, .tokenTaken, .merge,
      .replaced, .calls, .history, .visit, .rules, .app:
      call.map { [$0] } ?? []
    }
  }
}

extension Delivery.Event {
  fileprivate var trail: (name: String, level: Logger.Level) {
    switch self {
    case .invite: ("invite", .debug)
    case .answered: ("answered", .debug)
    case .stop: ("stop", .debug)
    case .moved: ("moved", .debug)
    case .transfer: ("transfer", .debug)
    case .ringsUntil: ("ringsUntil", .debug)
    case .ringing: ("ringing", .trace)
    case .signal: ("signal", .trace)
    }
  }
}
