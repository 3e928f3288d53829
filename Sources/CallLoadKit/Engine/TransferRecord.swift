import CallCore
import CallJudge

/// The view of a side that is handed over: by the device that does it, and by the third user's devices.
struct TransferRecord: Sendable {
  let terms: TransferTerms
  /// The third user's shard, which the call's shard asks for the devices.
  let shard: Int
  /// Those of the third user.
  var devices: [DeviceRecord]
  /// The device that asks for it, how, and when it did first.
  var asked: (by: Int, request: TransferRequest, at: Timestamp)?
  /// When it was notified that the transfer is under way.
  var acceptedAt: Timestamp?
  /// The end of the transfer that it received, where the side was not taken, and when it did.
  var failure: (end: CallEnd<Int>, at: Timestamp)?

  init(_ terms: TransferTerms, _ roster: Roster, attached: Set<Int>, shard: Int) {
    self.terms = terms
    self.shard = shard
    devices = roster.devices(of: terms.user).map {
      var device = DeviceRecord(device: $0)
      device.wasThere = attached.contains($0)
      return device
    }
  }

  func index(of device: Int) -> Int? { devices.firstIndex { $0.device == device } }

  mutating func change(_ index: Int, _ change: (inout DeviceRecord) -> Void) {
    change(&devices[index])
  }
}

extension CallRecord {
  func isThird(_ device: Int) -> Bool { transfer?.index(of: device) != nil }

  /// The third user's device that has the side, by what it or others received.
  var taker: Int? {
    guard let transfer else { return nil }
    if let taker = transfer.devices.first(where: { $0.wonAt != nil }) { return taker.device }
    let named = everybody.flatMap { [$0.handedOver?.by].compactMap(\.self) + $0.moves }
    return named.first { isThird($0) }
  }

  /// The device that has a side at the end.
  /// - Parameter winner: who had the callee's side, before a transfer.
  func side(ofCaller: Bool, winner: Int?) -> Int? {
    if let taker, transfer?.terms.ofCaller == ofCaller { return taker }
    return ofCaller ? facts.caller : winner
  }

  /// The device that had the callee's side before any transfer.
  var calleesWinner: Int? { puller ?? answeredBy ?? winners.first?.device }

  /// The device that has the other side of the one that is handed over.
  var stayer: Int? {
    transfer.flatMap { $0.terms.ofCaller ? calleesWinner : facts.caller }
  }

  // MARK: What arrives

  mutating func asksForTransfer(
    _ device: Int, _ request: TransferRequest, at now: Timestamp
  ) {
    if transfer?.asked == nil { transfer?.asked = (device, request, now) }
  }

  /// The third user's devices that are to ring: all, or the one that was asked before.
  var thirdAsked: [DeviceRecord] {
    guard let device = transfer?.asked?.request.device else { return thirdDevices }
    return thirdDevices.filter { roster.party($0.device).device == device }
  }

  /// Takes in what is about the transfer.
  /// - Returns: whether that is all.
  mutating func receiveOfTransfer(
    _ device: Int, _ delivery: Delivery, at now: Timestamp
  ) -> Bool {
    guard let before = record(of: device) else {
      violate(.transferredWrongly, "\(name(of: device)) has no part in the call, and hears of it")
      return true
    }
    switch delivery.event {
    case .invite(let invite):
      guard isThird(device) else { return false }
      invitedToTransfer(before, invite, delivery.version, at: now)
    case .answered:
      guard isThird(device) else { return false }
      // A shard's new owner tells the answer to the device that has the caller's side.
      change(device) { $0.wonAt = $0.wonAt ?? now }
    case .stop(let stop) where stop.reason == .transferred:
      let end = CallEnd(reason: stop.reason, by: stop.by.map(number))
      let version = delivery.version
      handedOver(
        device, DeviceRecord.End(callEnd: end, missed: stop.missed, version: version, at: now))
    case .moved(let moved):
      let to = number(of: moved.to)
      if device != stayer {
        violate(
          .transferredWrongly,
          "\(name(of: device)) is not the other side, and was told that the call moved")
      }
      change(device) { if !$0.moves.contains(to) { $0.moves.append(to) } }
    case .transfer(let news): told(news, device, at: now)
    case .stop, .ringing, .ringsUntil, .signal:
      guard let handed = before.handedOver, handed.version < delivery.version else { return false }
      violate(
        .transferredWrongly,
        "\(name(of: device)) has handed the call over, and was told more of it")
      return true
    }
    return true
  }

  private mutating func invitedToTransfer(
    _ before: DeviceRecord, _ invite: Invite, _ version: UInt64, at now: Timestamp
  ) {
    let name = name(of: before.device)
    let by = invite.transferredBy.map(number)
    if by == nil || by != transfer?.asked?.by || number(of: invite.caller) != stayer
      || !invite.divertedBy.isEmpty
    {
      violate(
        .transferredWrongly,
        "\(name) was told to ring, and not rightly who hands the call over and who stays")
    }
    if invite.consulted != transfer?.asked?.request.consulted {
      violate(
        .transferredWrongly,
        "\(name) was told to ring, and not rightly in which call it was asked before")
    }
    if !thirdAsked.contains(where: { $0.device == before.device }) {
      violate(.transferredWrongly, "\(name) was told to ring, and another device was asked before")
    }
    let isOld = before.end.map { version < $0.version } ?? false
    if before.isOver {
      oddities.append(
        Oddity(
          rule: .toldToRingAfterEnd, device: before.device, at: now, isOld: isOld,
          what: "\(name) was told to ring after it was told of the end"))
    }
    change(before.device) { $0.invitedAt = $0.invitedAt ?? now }
  }

  mutating func handedOver(_ device: Int, _ end: DeviceRecord.End) {
    guard let asked = transfer?.asked, asked.by == device else {
      return violate(
        .transferredWrongly, "\(name(of: device)) was told that it handed the call over")
    }
    if let first = record(of: device)?.handedOver, first.by != end.by {
      violate(
        .transferredWrongly,
        "\(name(of: device)) was told of two devices to which it handed the call over")
    }
    change(device) { $0.handedOver = $0.handedOver ?? end }
  }

  private mutating func told(_ news: TransferNews, _ device: Int, at now: Timestamp) {
    guard let transfer, transfer.asked?.by == device,
      news.to == roster.userName(transfer.terms.user), news.number == 1
    else {
      return violate(
        .transferredWrongly, "\(name(of: device)) was told of a transfer that it did not ask for")
    }
    guard let reason = news.reason else { return }
    let end = CallEnd(reason: reason, by: news.by.map(number))
    if let first = transfer.failure, first.end != end {
      violate(.transferredWrongly, "\(name(of: device)) was told two ends of its transfer")
    }
    self.transfer?.failure = transfer.failure ?? (end, now)
  }
}
