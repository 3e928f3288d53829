import CallClient
import CallCore
import CallJudge
import CallWire

/// Notes what devices send and receive, for the judge that reads the journal as well. On the fleet's loop.
final class EventTap {
  private unowned let fleet: DeviceFleet
  private let queue: EventQueue
  private var events: [SeenEvent] = []
  private var links: [Int: Links] = [:]
  private var lastLink = 0
  private var troubleUntil = Timestamp.zero
  private var lookedAt = Timestamp.zero

  /// A device that moves has two connections for a moment.
  private struct Links {
    var current: Int?
    var next: Int?
    /// The request of the newest attach, which the client may retransmit.
    var attach: UInt64?
  }

  /// After a fault something may be late by as much as messages are retransmitted.
  private static let afterglow: Span = .seconds(5)
  /// How often everything is noted as disturbed while a fault lasts.
  private static let interval: Span = .seconds(1)

  init(_ fleet: DeviceFleet, _ queue: EventQueue) {
    self.fleet = fleet
    self.queue = queue
  }

  private func note(_ event: HistoryEvent) {
    events.append(SeenEvent(at: fleet.loop.now, event))
  }

  private func who(_ device: Int) -> Who { Who(fleet.roster.party(device)) }

  // MARK: Devices

  func sending(_ frame: ClientFrame, _ device: LoadDevice) {
    let index = device.index
    switch frame.command {
    case .ack: return
    case .attach where links[index]?.attach != frame.id || links[index]?.current == nil:
      // It begins anew, or it has given up an earlier attempt to move.
      if device.driver.machine.isMoving { closed(index, .next) } else { closed(index) }
      let link = open(device)
      var own = links[index] ?? Links()
      if own.current == nil { own.current = link } else { own.next = link }
      own.attach = frame.id
      links[index] = own
    default: break
    }
    note(.sent(who(index), link: link(of: device), frame))
  }

  func received(_ frame: ServerFrame, _ device: LoadDevice) {
    let link = link(of: device)
    if let own = links[device.index], let next = own.next, case .reply(let id, .attached) = frame,
      id == own.attach
    {
      if let former = own.current { note(.closed(link: former)) }
      links[device.index] = Links(current: next, attach: own.attach)
    }
    // Nobody else sets rules, so the store has those that it acknowledged.
    if case .reply(_, .rules(let rules)) = frame {
      note(.decided(user: who(device.index).user, rules))
    }
    note(.received(who(device.index), link: link, frame))
  }

  /// The newest connection of a device. No frame is left out: where the tap has missed that a connection began, it begins
  /// now, and nothing is judged by it.
  private func link(of device: LoadDevice) -> Int {
    if let own = links[device.index], let link = own.next ?? own.current { return link }
    let link = open(device)
    links[device.index] = Links(current: link)
    return link
  }

  private func open(_ device: LoadDevice) -> Int {
    lastLink += 1
    note(.opened(who(device.index), link: lastLink, edge: "\(device.edge)"))
    return lastLink
  }

  /// The app's server has set a user's rules.
  func decided(_ user: String, _ rules: UserRules) { note(.decided(user: user, rules)) }

  func heard(_ event: ClientEvent, _ device: LoadDevice) {
    let told = HistoryEvent.told(who(device.index), event)
    if case .heard(_, _?) = told { note(told) }
  }

  /// A device without a session acts over HTTP.
  func acts(_ command: ClientCommand, in call: CallID, _ device: Int) {
    note(.push(.asked(who(device), call, command)))
  }

  /// All connections of a device are gone.
  func closed(_ device: Int) {
    guard let own = links.removeValue(forKey: device) else { return }
    for link in [own.current, own.next].compactMap(\.self) { note(.closed(link: link)) }
  }

  /// One of them is gone. A device that moves goes on with the other one.
  func closed(_ device: Int, _ side: ClientMachine.Link) {
    guard var own = links[device] else { return }
    switch side {
    case .current:
      guard let next = own.next else { return closed(device) }
      if let current = own.current { note(.closed(link: current)) }
      (own.current, own.next) = (next, nil)
    case .next:
      if let next = own.next { note(.closed(link: next)) }
      own.next = nil
    }
    links[device] = own
  }

  // MARK: Time

  /// The processors of the machine had nothing left for anybody.
  func wereBusy(from begin: Timestamp, until end: Timestamp) {
    note(.trouble(node: nil, from: begin, until: end + Self.afterglow))
    troubleUntil = max(troubleUntil, end + Self.afterglow)
  }

  /// - Parameter isDisturbed: a fault is under way, or has not settled.
  func tick(at now: Timestamp, isDisturbed: Bool) {
    if lookedAt + Self.interval <= now {
      closeThoseWithoutConnection()
      if isDisturbed { troubleUntil = now + Self.afterglow }
      if now < troubleUntil {
        note(.trouble(node: nil, from: lookedAt, until: troubleUntil))
        disturbAll()
      }
      lookedAt = now
    }
    flush(at: now)
  }

  func flush(at now: Timestamp) {
    queue.add(events, reached: now)
    events.removeAll(keepingCapacity: true)
  }

  /// Nothing says that a client itself has closed a connection before it was attached.
  private func closeThoseWithoutConnection() {
    for index in Array(links.keys) {
      switch fleet.devices[index].driver.machine.state {
      case .stopped, .waiting, .connecting: closed(index)
      case .attaching, .attached: break
      }
    }
  }

  private func disturbAll() {
    for own in links.values {
      for link in [own.current, own.next].compactMap(\.self) { note(.disturbed(link: link)) }
    }
  }
}
