internal import CallCore
internal import CallMachine
internal import CallWire

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

/// A user's device: it connects to the cluster and stays connected, is rung, and places calls.
///
/// ```swift
/// let device = try Device(options, transport: URLSessionTransport())
/// device.start()
/// for await event in device.events {
///   if case .incoming(let call) = event { try await call.alerting() }
/// }
/// ```
/// All members may be used from any thread. A device drops its connection when its last reference is released.
public final class Device: Sendable {
  let engine: DeviceEngine

  /// Makes a device that does nothing before ``start()``.
  /// - Parameters:
  ///   - options: the edges, the device's id, and where tokens come from.
  ///   - transport: opens the WebSockets.
  /// - Throws: `invalidField` for an address of an edge that is none, `invalidDevice`, `noToken`.
  public convenience init(
    _ options: DeviceOptions, transport: any Transport
  ) throws(CallmeshError) {
    try self.init(options, transport: transport, clock: SystemClock())
  }

  package init(
    _ options: DeviceOptions, transport: any Transport, clock: any DeviceClock
  ) throws(CallmeshError) {
    try options.check()
    engine = DeviceEngine(options, transport, clock)
  }

  deinit { engine.run { $0.stop() } }

  // MARK: Its life

  /// Connects, and stays connected. After `refused` it begins anew.
  public func start() { engine.run { $0.start() } }

  /// The user signs out: the device detaches, and is rung no more by its connection. Calls of this device end here, and
  /// the sequences of events do. To sign in again, make another device.
  public func stop() { engine.run { $0.stop() } }

  /// Finds out at once whether the connection lives, or connects instead of waiting. Call it when the app comes to the
  /// foreground and when the network has changed.
  public func probe() { engine.run { $0.probe() } }

  /// A push announced a call: connects at once and asks about it. `incoming` follows, or the call's `ended`.
  ///
  /// - Parameters:
  ///   - address: the call's address, from the push. An empty callee is the device's user.
  ///   - isWanted: the user has answered already. ``Call/isWanted`` says so; if the call rings here, the event is
  ///     `wanted`.
  /// - Returns: the call; nil if the device is stopped and cannot start.
  @discardableResult
  public func wake(_ address: Address, isWanted: Bool = false) -> Call? {
    engine.run { [engine] in $0.wake(address, isWanted: isWanted, engine) }
  }

  // MARK: What it knows

  public var state: State { engine.run { State($0.machine?.state) } }
  /// The device's user, once attached; before that empty.
  public var user: String { engine.run { $0.user } }
  public var id: String { engine.run { $0.id } }
  /// The cluster's time; nil: the device was never attached.
  public var clusterTime: Date? { engine.run { $0.clusterTime?.date } }
  /// Calls that are not over.
  public var calls: [Call] { engine.run { Array($0.calls.values) } }
  /// The calls that the user is in, on all devices. See ``DeviceOptions/ongoing``.
  public var ongoing: [OngoingCall] { engine.run { $0.ongoing } }
  /// How the user's history stands; nil: not known. See ``DeviceOptions/history``.
  public var historyState: HistoryState? { engine.run { $0.historyState } }

  /// The TURN servers for a peer connection that begins now. Empty without ``DeviceOptions/relays``, where the edge has
  /// none, and once the credentials have expired.
  public var iceServers: [IceServer] { engine.run { $0.iceServers } }

  /// A call that is not over, or that was the last to give way to a crossing one; nil: the device knows none with this id.
  public func find(_ id: CallID) -> Call? {
    engine.run { core in core.calls[id] ?? core.gaveWay.flatMap { $0.id == id ? $0 : nil } }
  }

  /// The events from now on, in order. The sequence ends with ``stop()``.
  public var events: EventSequence<Event> { engine.run { $0.events.sequence() } }

  public enum State: String, Sendable {
    case stopped, waiting, connecting, attaching, attached

    init(_ state: ClientMachine.State?) {
      switch state {
      case nil, .stopped: self = .stopped
      case .waiting: self = .waiting
      case .connecting: self = .connecting
      case .attaching: self = .attaching
      case .attached: self = .attached
      }
    }
  }
}
