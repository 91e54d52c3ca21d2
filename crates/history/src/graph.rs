//! Directed graphs: strongly connected components, and a shortest circle.

use std::collections::VecDeque;

/// A graph whose nodes are numbers from 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// Where the edges of each node lead.
    edges: Vec<Vec<usize>>,
}

/// What Tarjan's algorithm knows of a node.
#[derive(Clone, Copy, Default)]
struct Visit {
    /// When it was found, from 1; 0 if it was not.
    found: usize,
    /// The earliest node that is reached from here and still on the stack.
    lowest: usize,
    is_on_stack: bool,
}

impl Graph {
    pub(crate) fn add_node(&mut self) -> usize {
        self.edges.push(Vec::new());
        self.edges.len() - 1
    }

    pub(crate) fn add_edge(&mut self, from: usize, to: usize) {
        self.edges[from].push(to);
    }

    /// A shortest circle of edges, if there is one: its nodes, each with an edge to the next, the last one
    /// with one to the first. Only nodes below `below` count for its length.
    pub(crate) fn circle(&self, below: usize) -> Option<Vec<usize>> {
        let component = self.components().into_iter().find(|component| component.len() > 1)?;
        let mut is_inside = vec![false; self.edges.len()];
        component.iter().for_each(|&node| is_inside[node] = true);
        let counted = |circle: &Vec<usize>| circle.iter().filter(|&&node| node < below).count();
        component
            .iter()
            .filter(|&&node| node < below)
            .filter_map(|&node| self.way_back(node, &is_inside))
            .min_by_key(counted)
    }

    /// A shortest way from a node back to it, through nodes that are inside.
    fn way_back(&self, start: usize, is_inside: &[bool]) -> Option<Vec<usize>> {
        let mut before = vec![usize::MAX; self.edges.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for &next in &self.edges[node] {
                if next == start {
                    let mut circle = vec![node];
                    while circle[circle.len() - 1] != start {
                        circle.push(before[circle[circle.len() - 1]]);
                    }
                    circle.reverse();
                    return Some(circle);
                }
                if is_inside[next] && before[next] == usize::MAX {
                    before[next] = node;
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// The strongly connected components (Tarjan, "Depth-first search and linear graph algorithms").
    fn components(&self) -> Vec<Vec<usize>> {
        let mut visits = vec![Visit::default(); self.edges.len()];
        let (mut components, mut stack, mut count) = (Vec::new(), Vec::new(), 0);
        for root in 0..self.edges.len() {
            if visits[root].found != 0 {
                continue;
            }
            // Nodes whose edges are being followed, and how many of them have been.
            let mut path = vec![(root, 0)];
            while let Some(&mut (node, ref mut followed)) = path.last_mut() {
                if *followed == 0 && visits[node].found == 0 {
                    count += 1;
                    visits[node] = Visit { found: count, lowest: count, is_on_stack: true };
                    stack.push(node);
                }
                if let Some(&next) = self.edges[node].get(*followed) {
                    *followed += 1;
                    if visits[next].found == 0 {
                        path.push((next, 0));
                    } else if visits[next].is_on_stack {
                        visits[node].lowest = visits[node].lowest.min(visits[next].found);
                    }
                    continue;
                }
                path.pop();
                if let Some(&(parent, _)) = path.last() {
                    visits[parent].lowest = visits[parent].lowest.min(visits[node].lowest);
                }
                if visits[node].lowest == visits[node].found {
                    let begin = stack.iter().rposition(|&on| on == node).expect("it is on the stack");
                    let component = stack.split_off(begin);
                    component.iter().for_each(|&node| visits[node].is_on_stack = false);
                    components.push(component);
                }
            }
        }
        components
    }
}

#[cfg(test)]
mod tests {
    use super::Graph;

    fn graph(nodes: usize, edges: &[(usize, usize)]) -> Graph {
        let mut graph = Graph::default();
        (0..nodes).for_each(|_| _ = graph.add_node());
        edges.iter().for_each(|&(from, to)| graph.add_edge(from, to));
        graph
    }

    #[test]
    fn a_graph_without_a_circle_has_none() {
        assert_eq!(graph(4, &[(0, 1), (1, 2), (0, 2), (2, 3), (1, 3)]).circle(4), None);
    }

    #[test]
    fn the_shortest_circle_is_found() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 1), (4, 0)];
        let mut circle = graph(5, &edges).circle(5).expect("there is one");
        circle.sort_unstable();
        assert_eq!(circle, [1, 2]);
    }

    #[test]
    fn nodes_that_do_not_count_lengthen_no_circle() {
        // Through 3 and 4, which do not count, it is two nodes long; through 2, three.
        let edges = [(0, 3), (3, 4), (4, 1), (1, 0), (1, 2), (2, 0)];
        let mut circle = graph(5, &edges).circle(3).expect("there is one");
        circle.sort_unstable();
        assert_eq!(circle, [0, 1, 3, 4]);
    }

    #[test]
    fn long_ways_need_no_deep_stack() {
        let edges: Vec<(usize, usize)> = (0..200_000).map(|node| (node, node + 1)).collect();
        assert_eq!(graph(200_001, &edges).circle(200_001), None);
    }
}
