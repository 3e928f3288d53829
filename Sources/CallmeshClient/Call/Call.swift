internal import CallCore
internal import CallMachine
internal import CallWire
internal import Synchronization

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

/// A call of this device. Its state and its events come from the cluster; its methods are commands to the cluster.
///
/// A call never begins anew: where one is transferred back to a device, `Device.Event.incoming` has another `Call`.
/// All members may be used from any thread.
public final class Call: Sendable {
  public let id: CallID
  /// By this the cluster knows it.
  public let address: Address
  let engine: DeviceEngine
  let placing = Placing()
  private let changing: Mutex<Changing>
  private let broadcast = Broadcast<Event>(capacity: Call.eventsMax)
  private let signalBuffer = EventBuffer<Signal>(capacity: Call.signalsMax) {
    $0.kind != .candidate
  }

  /// Events that wait for one reader. Policy at the limit: the oldest is dropped.
  static let eventsMax = 64
  /// Signals that wait for the reader. Policy at the limit: the oldest candidate is dropped.
  static let signalsMax = 256

  private struct Changing {
    var progress: CallProgress
    var isWanted = false
    var crosses: Call?
  }

  init(_ address: Address, _ progress: CallProgress, _ engine: DeviceEngine) {
    (id, self.address, self.engine) = (address.call, address, engine)
    changing = Mutex(Changing(progress: progress))
  }

  /// The user's id who was called.
  public var callee: String { address.callee }
  /// The id as CallKit has it.
  public var uuid: UUID { id.uuid }

  public var state: State { progress.state }
  public var role: Role { progress.role }
  /// Whether it is over for this device.
  public var isOver: Bool { progress.isOver }
  /// The party at the other side; nil: not known.
  public var peer: Party? { progress.peer }
  /// How it ended; nil: it has not.
  public var end: End? { progress.end }
  /// When it stops ringing, by the cluster's clock; nil: not known.
  public var deadline: Date? { progress.deadline?.date }
  /// The user has answered before the call rang here, in a notification or in CallKit: answer at once.
  public var isWanted: Bool { changing.withLock { $0.isWanted } }

  // MARK: Of an invite

  /// This device's call to the same user, which is unanswered or has given way to this one. One of both goes on, so do not
  /// ring.
  public var crosses: Call? { changing.withLock { $0.crosses } }
  public var caller: Party? { progress.invite?.caller }
  /// The caller's session description; empty: none.
  public var description: String { progress.invite?.description ?? "" }
  public var video: Bool { progress.invite?.video ?? false }
  public var headers: [Header] { progress.invite?.headers ?? [] }
  /// The data that the caller's app gave to this one.
  public var pushData: String { progress.invite?.pushData ?? "" }
  /// The user is in an answered call already.
  public var isSecondCall: Bool { progress.invite?.isSecondCall ?? false }
  /// The user from whom the call was diverted to this one; nil: it was not.
  public var divertedBy: String? {
    progress.invite.flatMap { $0.divertedBy.isEmpty ? nil : $0.divertedBy }
  }
  /// The user who hands an answered call over to this one; nil: an ordinary call.
  public var transferredBy: Party? { progress.invite?.transferredBy }
  /// The app's server placed the call; `caller` has answered it, and waits for this user.
  public var isSecondSide: Bool { progress.invite?.isSecondSide ?? false }
  /// The call in which this device was asked before: answer at once, without ringing. It has been checked.
  public var consulted: Address? {
    progress.invite?.consulted.map { Address(callee: $0.callee, call: $0.call) }
  }

  // MARK: What happens

  /// The events of the call from now on. The sequence begins with the present state and ends with the call.
  public var events: EventSequence<Event> {
    changing.withLock { broadcast.sequence(beginningWith: .state($0.progress.state)) }
  }

  /// The other side's descriptions, candidates and informations, those that came before included. For one reader.
  public var signals: EventSequence<Signal> { EventSequence(buffer: signalBuffer) }

  var progress: CallProgress { changing.withLock { $0.progress } }

  /// Notes that the user has answered elsewhere.
  func want() { changing.withLock { $0.isWanted = true } }

  func cross(_ other: Call?) { changing.withLock { $0.crosses = other } }

  /// Changes the call, and notifies its readers. Called by the engine alone, one at a time.
  func change(_ body: (inout CallProgress) throws(CallmeshError) -> [Event])
    throws(CallmeshError) -> [Event]
  {
    let (events, state) = try changing.withLock { changing throws(CallmeshError) in
      var events = try body(&changing.progress)
      let state = changing.progress.state
      events = events.flatMap { [$0, .state(state)] }
      for event in events { broadcast.send(event) }
      return (events, state)
    }
    if state == .ended || state == .lost { finish() }
    return events
  }

  func add(_ signal: CallCore.Signal) {
    let kind: Signal.Kind
    switch signal.kind {
    case .candidate: kind = .candidate
    case .description: kind = .description
    case .information: kind = .information
    case .unknown: return
    }
    signalBuffer.append(Signal(kind: kind, body: signal.body))
  }

  private func finish() {
    broadcast.finish()
    signalBuffer.finish()
  }
}
