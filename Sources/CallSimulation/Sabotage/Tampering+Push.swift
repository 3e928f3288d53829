internal import CallCore
internal import CallWire

struct PushTampering {
  var legs: [CallID: [DeviceID]] = [:]
  var winners: [CallID: DeviceID] = [:]
  var jobs = 0
}

/// Mistakes with pushes.
extension Tampering {
  /// Puts pushes into a shard's record, or changes them.
  func changePushes(_ record: inout JournalRecord) {
    var entries: [JournalEntry] = []
    for var entry in record.entries {
      var behind: [JournalEntry.Change] = []
      switch entry.change {
      case .placed(let facts): push.legs[entry.call] = facts.legs.map(\.device)
      case .answered(let facts): push.winners[entry.call] = facts.by.device
      case .pushed(let device, let purpose):
        push.legs[entry.call]?.removeAll { $0 == device }
        if sabotage == .cleanUpToWinner, purpose.isCleanUp, let winner = push.winners[entry.call] {
          entry.change = .pushed(winner, purpose)
        }
      case .ended(let end):
        if sabotage == .pushedAfterEnd, let device = push.legs[entry.call]?.first {
          behind.append(.pushed(device, .ring))
        }
        if sabotage == .noticeToDecliner, end.reason == .declined, let by = end.by {
          behind.append(.pushed(by.device, .missedNotice))
        }
      default: break
      }
      entries.append(entry)
      entries += behind.map { JournalEntry(call: entry.call, change: $0) }
    }
    record.entries = entries
  }

  static func withLaterDeadline(_ bytes: [UInt8]) -> [UInt8] {
    guard var job = try? ClusterCodec.pushJob(bytes) else { return bytes }
    job.deadline = job.deadline + .seconds(20)
    return ClusterCodec.encode(job)
  }

  /// A report that a token is gone, dated in the future.
  static func asIfNew(_ report: PushReport) -> PushReport {
    guard case .tokenGone = report.outcome else { return report }
    var report = report
    report.outcome = .tokenGone(at: report.at + .seconds(3600))
    return report
  }

  /// Reports an ended call as ringing to a device that attaches for it.
  func ringing(_ frame: ServerFrame) -> ServerFrame {
    guard case .reply(let id, .attached(var info)) = frame, var state = info.forCall,
      state.phase == .ended
    else { return frame }
    state.phase = .ringing
    state.reason = nil
    state.by = nil
    info.forCall = state
    return .reply(id: id, .attached(info))
  }
}
