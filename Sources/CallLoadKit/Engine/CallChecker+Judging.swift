package import CallCore
import CallJudge
import CallWire

/// Judges calls that are over for everybody, and keeps what was found.
extension CallChecker {
  /// Judges a call and forgets its history.
  /// - Parameter isAttached: whether a device is connected now; one that is not may lack news.
  package mutating func judge(
    _ call: CallID, at now: Timestamp, allowed: [CallOutcome] = [], isAttached: (Int) -> Bool
  ) -> Verdict? {
    guard var record = records.removeValue(forKey: call) else { return nil }
    talksAreOver(of: record, at: now)
    record.examine(at: now, timeline, isAttached: isAttached)
    record.examineOngoing(ongoing, timeline, at: now)
    examineSecond(&record, at: now)
    examineConsultation(&record)
    for violation in record.violations {
      broken(violation.rule, of: call, record.story(violation.reason, seed: seed))
    }
    remember(call, caller: record.facts.caller)
    let outcome = record.outcome
    if let other = record.facts.crosses,
      let what = crossings.judged(call, crosses: other, outcome)
    {
      record.violate(.twoCallsOfGlare, what)
      broken(.twoCallsOfGlare, of: call, record.story(what, seed: seed))
    }
    var verdict = Verdict(
      outcome: outcome, violations: record.violations, fate: record.fate)
    if !allowed.contains(outcome) {
      verdict.explainedBy = record.explanation(of: outcome, timeline)?.kind
      verdict.story = verdict.explainedBy == nil ? record.story(seed: seed, timeline) : nil
    }
    return verdict
  }

  private mutating func examineConsultation(_ record: inout CallRecord) {
    consultations.judged(
      record, isOtherOpen: record.transfer?.terms.consulted.map { records[$0] != nil } ?? false)
    let first = record.facts.during.flatMap { records[$0.first] }
    if let what = consultations.objection(to: record, first: first, timeline) {
      record.violate(.transferredWrongly, what)
    }
  }

  /// A rule about the cluster as a whole was broken this many times.
  package mutating func broken(_ rule: CorrectnessRule, count: Int, _ story: String) {
    guard count > 0 else { return }
    counts[rule, default: 0] += count
    guard examples[rule, default: []].count < Self.examplesMax else { return }
    examples[rule, default: []].append(story)
  }

  mutating func pushesBroke(_ violation: Violation<CorrectnessRule>, of call: CallID) {
    broken(violation.rule, of: call, "call \(call), seed \(seed): \(violation.reason)")
  }

  mutating func broken(
    _ rule: CorrectnessRule, of call: CallID, _ story: String
  ) {
    counts[rule, default: 0] += 1
    // One example of each of three calls tells more than three of one call.
    guard examples[rule, default: []].count < Self.examplesMax,
      exampleCalls[rule, default: []].insert(call).inserted
    else { return }
    examples[rule, default: []].append(story)
  }

  private mutating func remember(_ call: CallID, caller: Int) {
    remembered[call] = caller
    rememberedOrder.append(call)
    if rememberedOrder.count > Self.rememberedMax {
      remembered[rememberedOrder.removeFirst()] = nil
    }
  }
}
