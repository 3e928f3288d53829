package import CallCore
import CallJudge

extension FaultTimeline {
  /// When the edges that had a device were in trouble, in the half minute before a moment. Seconds count from a moment.
  func story(device: Int, around moment: Timestamp) -> [String] {
    let before = moment + Span(microseconds: -30_000_000)
    return windows(device: device).compactMap { window in
      guard let fault = faults[window.fault]?.fault, window.touches(before, moment) else {
        return nil
      }
      return "its edge: \(fault.kind.rawValue) \(fault.node), "
        + "\(Self.seconds(window.from, from: moment)) to \(Self.seconds(window.until, from: moment)) s"
    }
  }

  private static func seconds(_ at: Timestamp?, from moment: Timestamp) -> String {
    guard let at else { return "…" }
    let tenths = (at - moment).microseconds / 100_000
    return "\(tenths < 0 ? "-" : "+")\(abs(tenths) / 10).\(abs(tenths) % 10)"
  }

  /// What befell the cluster, and a shard by it, from half a minute before to ten seconds behind a
  /// moment. Seconds count from that.
  package func story(shard: Int, around moment: Timestamp) -> [String] {
    func seconds(_ at: Timestamp?) -> String { Self.seconds(at, from: moment) }
    let before = moment + Span(microseconds: -30_000_000)
    return faults.keys.sorted().compactMap { id in
      guard let course = faults[id], course.beganAt <= moment + .seconds(10),
        course.liftedAt.map({ before <= $0 }) ?? true
      else { return nil }
      var line =
        "\(course.fault.kind.rawValue) \(course.fault.node), \(seconds(course.beganAt)) to "
        + "\(seconds(course.liftedAt)) s"
      if let window = windows(shard: shard).first(where: { $0.fault == id }) {
        line += "; shard \(shard) was back at \(seconds(window.until)) s"
      }
      return line
    }
  }
}
